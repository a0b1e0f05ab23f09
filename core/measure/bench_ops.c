/* bench_ops: see bench_ops.h. */
#include "bench_ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine_int.h"

enum { MAX_KINDS = 32, MAX_PASSES = 500, MIN_PASSES = 5, OUT_ROWS = 32 };

typedef struct range {
  uint32_t first, last, kind;
} range;

typedef struct kind {
  char name[128];
  uint32_t n;  /* ranges */
  bool attend; /* its time depends on the depth */
  bool head;   /* works on rows with logits only */
} kind;

typedef struct ops {
  tn_engine *e;
  const tn_bench_ops *args;
  range *ranges; /* [n_ranges] in the order of the program, then the whole of it */
  uint32_t n_ranges, n_kinds;
  kind kinds[MAX_KINDS];
  uint8_t *text; /* a session of the depth at hand */
  size_t n_text;
  int64_t depth;
  double took[MAX_KINDS][MAX_PASSES]; /* seconds of each pass */
} ops;

static const uint8_t no_fingerprint[32];

/* ---------------------------------------------------------------- kinds */

/* "attn_q" of "blk.3.attn_q"; a name outside the layers as it is. */
static const char *stem(const char *name)
{
  const char *dot = strncmp(name, "blk.", 4) == 0 ? strchr(name + 4, '.') : NULL;
  return dot ? dot + 1 : name;
}

static tn_status add(ops *o, const char *name, uint32_t first, uint32_t last, const kind *like, tn_err *err)
{
  uint32_t k = 0;
  while (k < o->n_kinds && strcmp(o->kinds[k].name, name) != 0) k++;
  if (k == MAX_KINDS) return tn_fail(err, TN_E_UNSUPPORTED, "more than %d kinds of records", MAX_KINDS);
  if (k == o->n_kinds) {
    o->kinds[o->n_kinds] = *like;
    snprintf(o->kinds[o->n_kinds++].name, sizeof like->name, "%s", name);
  }
  o->kinds[k].n++;
  o->ranges[o->n_ranges++] = (range){first, last, k};
  return TN_OK;
}

static tn_status find_kinds(ops *o, const tn_program *p, tn_err *err)
{
  tn_status st = TN_OK;
  o->ranges = tn_zalloc((size_t)p->n_ops + 1, sizeof *o->ranges);
  if (!o->ranges) return tn_fail(err, TN_E_NOMEM, "no memory for %u records", p->n_ops);
  for (uint32_t i = 0, last; st == TN_OK && i < p->n_ops; i = last) {
    const tn_op *op = p->ops[i];
    char name[128];
    last = i + 1;
    if (op->kind != TN_OP_LINEAR && op->kind != TN_OP_ATTEND) continue;
    snprintf(name, sizeof name, "%s", stem(op->name));
    while (op->kind == TN_OP_LINEAR && last < p->n_ops && p->ops[last]->kind == TN_OP_LINEAR &&
           p->ops[last]->in[0] == op->in[0]) {
      size_t n = strlen(name);
      snprintf(name + n, sizeof name - n, "+%s", stem(p->ops[last++]->name));
    }
    kind like = {.attend = op->kind == TN_OP_ATTEND, .head = p->acts[op->out[0]]->rows == TN_ROWS_OUT};
    st = add(o, name, i, last, &like, err);
  }
  return st == TN_OK ? add(o, "step", 0, p->n_ops, &(kind){.attend = true}, err) : st;
}

/* ---------------------------------------------------------------- sequences */

/* Arbitrary tokens, at most those of the deepest text and the most rows. */
static tn_status make_tokens(const tn_engine *e, int64_t n, int32_t **out, tn_err *err)
{
  uint32_t x = 1;
  *out = tn_zalloc((size_t)n, sizeof **out);
  if (!*out) return tn_fail(err, TN_E_NOMEM, "no memory for %lld tokens", (long long)n);
  for (int64_t i = 0; i < n; i++) {
    x = x * 1664525u + 1013904223u;
    (*out)[i] = (int32_t)((uint64_t)x * e->n_vocab >> 32);
  }
  return TN_OK;
}

static void drop(tn_engine *e, uint64_t id)
{
  tn_err ignored = tn_err_init();
  tn_engine_cancel(e, id);
  (void)tn_engine_step(e, &ignored);
}

static tn_status go_to(ops *o, int64_t depth, tn_err *err)
{
  int32_t *tokens;
  uint64_t id = 0;
  tn_status st = make_tokens(o->e, depth, &tokens, err);
  if (st != TN_OK) return st;
  tn_request q = {.prompt = tokens,
                  .n_prompt = depth,
                  .max_new = 2,
                  .sampling = tn_sampling_default(),
                  .ignore_eog = 1,
                  .no_prefix = 1};
  st = tn_engine_submit(o->e, &q, &id, err);
  for (const tn_seq *s; st == TN_OK && (s = tn_engine_seq(o->e, id)) && s->n_done < depth;)
    st = tn_engine_step(o->e, err);
  free(o->text);
  o->text = NULL;
  o->depth = depth;
  if (st == TN_OK) st = tn_engine_save(o->e, id, no_fingerprint, &o->text, &o->n_text, err);
  drop(o->e, id);
  free(tokens);
  return st;
}

/* A batch of `rows` rows of one sequence behind the text, its entries reserved. The sequence is *id, also on failure.
 * */
static tn_status make_batch(ops *o, uint32_t rows, uint32_t outs, uint64_t *id, tn_batch **out, tn_err *err)
{
  tn_engine *e = o->e;
  int32_t *tokens;
  *id = 0;
  tn_status st = make_tokens(e, rows, &tokens, err);
  if (st != TN_OK) return st;
  tn_request q = {.prompt = tokens,
                  .n_prompt = rows,
                  .sampling = tn_sampling_default(),
                  .score = 1,
                  .score_from = o->depth + rows - outs};
  st = tn_engine_restore(e, o->text, o->n_text, no_fingerprint, &q, id, err);
  free(tokens);
  if (st != TN_OK) return st;
  tn_seq *s = e->first;
  while (s->id != *id) s = s->next;
  s->run = rows;
  s->n_nodes = 0;
  st = tn_kv_reserve(e->kv, s->kv, rows);
  if (st != TN_OK)
    return tn_fail(err, st, "the cache has no room for %u rows at depth %lld", rows, (long long)o->depth);
  tn_batch_begin(e->batcher);
  tn_batch_add(e->batcher, s, e->kv, NULL);
  *out = tn_batch_end(e->batcher);
  st = tn_tiler_fill(e, &s, 1, *out, err);
  if (st != TN_OK) return st;
  st = tn_exec_run(e->exec, 0, UINT32_MAX, *out); /* what records of the middle read is there */
  if (st == TN_OK) return TN_OK;
  return tn_fail(err, st, "%u rows at depth %lld: %s", rows, (long long)o->depth, tn_status_name(st));
}

/* ---------------------------------------------------------------- timing */

static int by_size(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static tn_status timed(const ops *o, uint32_t first, uint32_t last, const tn_batch *b, double *seconds)
{
  uint64_t start = tn_now_ns();
  tn_status st = first < last ? tn_exec_run(o->e->exec, first, last, b) : TN_OK;
  *seconds += (double)(tn_now_ns() - start) * 1e-9;
  return st;
}

/* Pass n: the program once in pieces, so that each kind finds caches as a step leaves them, and once whole. */
static tn_status one_pass(ops *o, uint32_t n, const tn_batch *b)
{
  tn_status st = TN_OK;
  double others = 0;
  uint32_t at = 0;
  for (uint32_t k = 0; k < o->n_kinds; k++) o->took[k][n] = 0;
  for (uint32_t i = 0; st == TN_OK && i < o->n_ranges; i++) {
    const range *r = &o->ranges[i];
    if (r->first > at) st = timed(o, at, r->first, b, &others);
    if (st == TN_OK) st = timed(o, r->first, r->last, b, &o->took[r->kind][n]);
    at = r->last;
  }
  return st;
}

/* What an ATTEND reads: entries of its layer and KV heads, this step's too. */
static double attend_bytes(const ops *o, const tn_op *op, uint32_t rows)
{
  double heads = (double)op->p.attend.n_kv_heads / o->e->exec->ranks[0].par.n_kv_heads;
  return heads * (tn_cost_kv(o->e, o->e->first, op->layer) + rows * tn_cost_kv_token(o->e, op->layer));
}

static tn_cost cost_of(const ops *o, uint32_t k, const tn_batch *b)
{
  tn_cost sum = {0};
  const tn_program *p = &o->e->exec->ranks[0].built->program;
  for (uint32_t i = 0; i < o->n_ranges; i++) {
    const range *r = &o->ranges[i];
    if (r->kind != k) continue;
    tn_cost c = tn_cost_of(o->e, r->first, r->last, b->n_rows, b->n_out);
    sum.bytes += c.bytes;
    sum.int_ops += c.int_ops;
    sum.byte_ops += c.byte_ops;
    for (uint32_t n = r->first; n < r->last; n++)
      if (p->ops[n]->kind == TN_OP_ATTEND) sum.bytes += attend_bytes(o, p->ops[n], b->n_rows);
  }
  return sum;
}

static bool tell(ops *o, uint32_t k, uint32_t n_passes, const tn_batch *b)
{
  qsort(o->took[k], n_passes, sizeof *o->took[k], by_size);
  double median = o->took[k][n_passes / 2];
  tn_bench_op f = {.name = o->kinds[k].name,
                   .n_records = o->kinds[k].n,
                   .rows = b->n_rows,
                   .depth = o->depth,
                   .seconds = median > 1e-9 ? median : 1e-9,
                   .cost = cost_of(o, k, b)};
  return o->args->figure(o->args->ctx, &f);
}

/* Every kind with so many rows at the depth at hand; kinds that do not depend on the depth at the first one only. */
static tn_status figures(ops *o, uint32_t rows, bool first_depth, bool *on, tn_err *err)
{
  uint64_t id = 0, start = tn_now_ns(), most = (uint64_t)(o->args->seconds * 1e9);
  uint32_t n = 0;
  tn_batch *b = NULL;
  tn_status st = make_batch(o, rows, rows <= OUT_ROWS && rows <= o->e->max_out ? rows : 1, &id, &b, err);
  for (; st == TN_OK && n < MAX_PASSES && (n < MIN_PASSES || tn_now_ns() - start < most); n++) {
    st = one_pass(o, n, b);
    if (st != TN_OK) tn_fail(err, st, "%u rows at depth %lld: %s", rows, (long long)o->depth, tn_status_name(st));
  }
  for (uint32_t k = 0; st == TN_OK && *on && k < o->n_kinds; k++) {
    const kind *at = &o->kinds[k];
    if ((at->attend || first_depth) && (!at->head || b->n_out == rows)) *on = tell(o, k, n, b);
  }
  if (id) drop(o->e, id);
  return st;
}

tn_status tn_bench_ops_run(tn_engine *e, const tn_bench_ops *args, tn_err *err)
{
  ops *o = tn_zalloc(1, sizeof *o);
  if (!o) return tn_fail(err, TN_E_NOMEM, "no memory to time single records");
  bool on = true;
  o->e = e;
  o->args = args;
  tn_status st = find_kinds(o, &e->exec->ranks[0].built->program, err);
  for (uint32_t d = 0; st == TN_OK && on && d < args->n_depths; d++) {
    st = go_to(o, args->depths[d], err);
    for (uint32_t r = 0; st == TN_OK && on && r < args->n_rows; r++)
      if (args->rows[r] <= e->cfg.max_rows) st = figures(o, args->rows[r], d == 0, &on, err);
  }
  free(o->ranges);
  free(o->text);
  free(o);
  return st;
}
