/* quality: chunks through one engine, or through two that take turns. See quality.h. */
#include "quality.h"

#include <stdlib.h>
#include <string.h>

/* Rows of one side that wait for those of the other, in order. */
typedef struct waiting {
  float *rows; /* [cap][n_vocab] */
  size_t n, head, cap;
} waiting;

typedef struct run {
  const tn_quality_args *a;
  uint32_t n_vocab;
  int32_t *text;     /* [n_ctx] the chunk */
  waiting ahead;     /* rows of one engine that the other has not come to yet */
  int64_t seen[2];   /* rows that the tested engine and the reference have given */
  tn_kld_token *out; /* [n_ctx] of the chunk */
  int64_t n_out;
} run;

enum { TESTED = 0, REFERENCE = 1 };

typedef struct side {
  run *r;
  int which;
} side;

static tn_status keep(waiting *w, const float *row, uint32_t n_vocab, tn_err *err)
{
  if (w->n == w->cap) {
    size_t cap = w->cap ? 2 * w->cap : 64;
    float *grown = realloc(w->rows, cap * n_vocab * sizeof *grown);
    if (!grown) return tn_fail(err, TN_E_NOMEM, "no memory for %zu rows of %u logits", cap, n_vocab);
    w->rows = grown;
    w->cap = cap;
  }
  memcpy(w->rows + w->n++ * n_vocab, row, n_vocab * sizeof *row);
  return TN_OK;
}

/* The oldest one; borrowed until the next call. */
static const float *take(waiting *w, uint32_t n_vocab)
{
  const float *row = w->rows + w->head++ * n_vocab;
  if (w->head == w->n) w->head = w->n = 0;
  return row;
}

static tn_status on_row(void *ctx, int64_t pos, const float *row, tn_err *err)
{
  const side *s = ctx;
  run *r = s->r;
  int64_t mine = r->seen[s->which]++;
  tn_kld_token *t = &r->out[r->n_out];
  t->pos = pos;
  int32_t next = r->text[pos + 1];
  tn_status st = TN_OK;
  if (r->a->save && s->which == (r->a->reference.setup ? REFERENCE : TESTED))
    st = tn_base_put(r->a->save, row, next, err);
  if (st != TN_OK) return st;
  if (r->a->base) {
    st = tn_base_compare(r->a->base, row, next, t, err);
  } else if (!r->a->reference.setup) {
    st = tn_nll_row(row, r->n_vocab, next, t, err);
  } else if (mine >= r->seen[1 - s->which]) {
    return keep(&r->ahead, row, r->n_vocab, err);
  } else {
    const float *other = take(&r->ahead, r->n_vocab);
    st = s->which == TESTED ? tn_kld_rows(other, row, r->n_vocab, next, t, err)
                            : tn_kld_rows(row, other, r->n_vocab, next, t, err);
  }
  if (st == TN_OK) r->n_out++;
  return st;
}

/* Who runs next: the one that is behind, the reference where both are level. */
static const tn_subject *next_of(const run *r)
{
  const tn_subject *a = &r->a->tested, *b = &r->a->reference;
  bool a_runs = tn_scorer_busy(a->scorer), b_runs = b->setup && tn_scorer_busy(b->scorer);
  if (a_runs && b_runs) return r->seen[TESTED] < r->seen[REFERENCE] ? a : b;
  return a_runs ? a : b_runs ? b : NULL;
}

/* Ends what still runs after a failure, or when somebody wants an end. */
static void stop(const tn_subject *s)
{
  if (s->setup) tn_scorer_stop(s->scorer);
}

static tn_status run_chunk(run *r, uint32_t chunk, bool *on, tn_err *err)
{
  const tn_quality_args *a = r->a;
  const tn_chunks *c = a->chunks;
  memcpy(r->text, c->tokens + (int64_t)chunk * c->n_ctx, (size_t)c->n_ctx * sizeof *r->text);
  if (c->bos >= 0) r->text[0] = c->bos;
  side tested = {r, TESTED}, reference = {r, REFERENCE};
  tn_score t = {.tokens = r->text, .n = c->n_ctx, .first = c->n_prompt, .row = on_row, .ctx = &tested};
  t.decode = a->tested.decode;
  r->n_out = r->seen[TESTED] = r->seen[REFERENCE] = 0;
  r->ahead.n = r->ahead.head = 0;
  tn_status st = a->base ? tn_base_chunk(a->base, chunk, err) : TN_OK;
  if (st == TN_OK) st = tn_scorer_begin(a->tested.scorer, a->tested.setup->engine, &t, err);
  t.ctx = &reference;
  t.decode = a->reference.decode;
  if (st == TN_OK && a->reference.setup) st = tn_scorer_begin(a->reference.scorer, a->reference.setup->engine, &t, err);
  for (const tn_subject *s; st == TN_OK && *on && (s = next_of(r));) {
    st = tn_scorer_step(s->scorer, err);
    if (st != TN_OK) tn_err_prefix(err, "%s", s == &a->tested ? "tested composition" : "reference");
    if (st == TN_OK && a->on) *on = a->on(a->ctx);
  }
  stop(&a->tested);
  stop(&a->reference);
  if (st == TN_OK && *on && r->n_out != c->n_ctx - 1 - c->n_prompt)
    st = tn_fail(err, TN_E_INTERNAL, "%lld rows came of %lld", (long long)r->n_out,
                 (long long)(c->n_ctx - 1 - c->n_prompt));
  return st;
}

tn_status tn_quality_add(tn_quality *q, const tn_kld_token *tokens, int64_t n, tn_err *err)
{
  const int64_t all = q->n + n;
  tn_kld_token *grown = realloc(q->tokens, (size_t)all * sizeof *grown);
  if (!grown) return tn_fail(err, TN_E_NOMEM, "no memory for the figures of %lld tokens", (long long)all);
  q->tokens = grown;
  memcpy(grown + q->n, tokens, (size_t)n * sizeof *grown);
  q->n = all;
  q->n_done++;
  return TN_OK;
}

tn_status tn_quality_measure(const tn_quality_args *a, tn_quality *q, tn_err *err)
{
  const tn_chunks *c = a->chunks;
  run r = {.a = a, .n_vocab = a->tested.setup->model->shape.n_vocab};
  q->n_chunks = c->n_chunks;
  q->based = a->reference.setup != NULL || a->base;
  r.text = tn_zalloc((size_t)c->n_ctx, sizeof *r.text);
  r.out = tn_zalloc((size_t)c->n_ctx, sizeof *r.out);
  tn_status st = r.text && r.out ? TN_OK : tn_fail(err, TN_E_NOMEM, "no memory for a chunk");
  bool on = true;
  while (st == TN_OK && on && q->n_done < c->n_chunks) {
    uint32_t chunk = q->n_done;
    st = run_chunk(&r, chunk, &on, err);
    if (st != TN_OK) tn_err_prefix(err, "chunk %u", chunk + 1);
    if (st == TN_OK && on) st = tn_quality_add(q, r.out, r.n_out, err);
    if (st == TN_OK && on && a->chunk) on = a->chunk(a->ctx, q);
  }
  free(r.text);
  free(r.out);
  free(r.ahead.rows);
  return st;
}

void tn_quality_free(tn_quality *q)
{
  free(q->tokens);
  *q = (tn_quality){0};
}
