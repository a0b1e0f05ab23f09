/* quality: perplexity of every variant on one text, chunk by chunk. See run.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ab/run.h"

typedef struct chunks { /* sums of one variant's chunks, from figures that grow */
  tn_ab_run *r;
  double *nll; /* [max] mean of each chunk */
  uint32_t n, max;
  double sum;
  int64_t scored;
} chunks;

static bool on_chunk(void *ctx, const tn_ppl *p)
{
  chunks *c = ctx;
  double sum = log(p->ppl) * (double)p->n_scored;
  if (c->n == c->max || p->n_scored == c->scored) return false;
  c->nll[c->n++] = (sum - c->sum) / (double)(p->n_scored - c->scored);
  c->sum = sum;
  c->scored = p->n_scored;
  return !c->r->go || c->r->go(c->r->ctx, c->r->e);
}

static tn_status measure(tn_ab_run *r, uint32_t v, tn_ppl_args args, chunks *c, tn_err *err)
{
  tn_ab_rig *g = &r->rig[v];
  tn_ppl p;
  *c = (chunks){.r = r, .nll = c->nll, .max = c->max};
  args.chunk = on_chunk;
  args.ctx = c;
  g->score = true;
  tn_status st = tn_ppl_measure(g->ppl, &g->s, &args, &p, err);
  g->score = false;
  if (st != TN_OK) tn_err_prefix(err, "%s (%s)", r->e->variant[v].name, r->e->variant[v].title);
  return st;
}

tn_status tn_ab_quality(tn_ab_run *r, const char *text, size_t n_text, int64_t n_ctx, uint32_t max_chunks, tn_err *err)
{
  tn_ab_exp *e = r->e;
  tn_ppl_args args = {.text = text, .n_text = n_text, .n_ctx = n_ctx, .max_chunks = max_chunks};
  double *all = tn_zalloc((size_t)e->n_variants * max_chunks, sizeof *all);
  uint32_t whole = max_chunks;
  tn_status st = all ? TN_OK : tn_fail(err, TN_E_NOMEM, "no memory for %u chunks", max_chunks);
  for (uint32_t v = 0; st == TN_OK && v < e->n_variants; v++) {
    chunks c = {.nll = all + (size_t)v * max_chunks, .max = max_chunks};
    st = measure(r, v, args, &c, err);
    if (c.n < whole) whole = c.n;
    e->n_scored = c.n ? (uint64_t)c.scored / c.n : 0;
  }
  if (st != TN_OK) {
    free(all);
    return st;
  }
  for (uint32_t v = 1; v < e->n_variants; v++)
    memmove(all + (size_t)v * whole, all + (size_t)v * max_chunks, whole * sizeof *all);
  free(e->nll);
  e->nll = all;
  e->n_chunks = whole;
  return TN_OK;
}
