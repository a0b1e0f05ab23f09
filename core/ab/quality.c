/* quality: perplexity and divergence of every variant on one text, chunk by chunk. See run.h. */
#include "measure/quality.h"

#include <stdlib.h>
#include <string.h>

#include "ab/run.h"

static bool on_step(void *ctx)
{
  tn_ab_run *r = ctx;
  if (r->go && !r->go(r->ctx, r->e)) r->e->partial = true;
  return !r->e->partial;
}

/* Means of a chunk's tokens. */
static void chunk_means(const tn_quality *q, uint32_t chunk, double *nll, double *nll_base, double *kld)
{
  int64_t n = q->n / q->n_done;
  *nll = *nll_base = *kld = 0;
  for (const tn_kld_token *t = q->tokens + chunk * n, *end = t + n; t < end; t++) {
    *nll += t->nll / (double)n;
    *nll_base += t->nll_base / (double)n;
    *kld += t->kld / (double)n;
  }
}

/* Variant v beside the reference; *whole shrinks to the chunks that are done. */
static tn_status measure(tn_ab_run *r, uint32_t v, const tn_chunks *chunks, double *nll, double *kld, uint32_t *whole,
                         tn_err *err)
{
  tn_ab_rig *ref = &r->rig[0], *tested = &r->rig[v];
  tn_quality q = {0};
  tn_quality_args a = {.tested = {.setup = &tested->s, .scorer = tested->scorer},
                       .reference = {.setup = &ref->s, .scorer = ref->scorer},
                       .chunks = chunks,
                       .on = on_step,
                       .ctx = r};
  ref->score = tested->score = true;
  tn_status st = tn_quality_measure(&a, &q, err);
  ref->score = tested->score = false;
  if (st != TN_OK) tn_err_prefix(err, "%s (%s)", r->e->variant[v].name, r->e->variant[v].title);
  if (q.n_done < *whole) *whole = q.n_done;
  for (uint32_t c = 0; st == TN_OK && c < *whole; c++)
    chunk_means(&q, c, &nll[(size_t)v * chunks->n_chunks + c], &nll[c], &kld[(size_t)v * chunks->n_chunks + c]);
  if (q.n_done) r->e->n_scored = (uint64_t)(q.n / q.n_done);
  tn_quality_free(&q);
  return st;
}

tn_status tn_ab_quality(tn_ab_run *r, const tn_chunks *chunks, tn_err *err)
{
  tn_ab_exp *e = r->e;
  tn_status st = TN_OK;
  uint32_t n = chunks->n_chunks, whole = n;
  double *nll = tn_zalloc((size_t)e->n_variants * n, sizeof *nll),
         *kld = tn_zalloc((size_t)e->n_variants * n, sizeof *kld);
  if (!nll || !kld) st = tn_fail(err, TN_E_NOMEM, "no memory for %u chunks", n);
  for (uint32_t v = 1; st == TN_OK && v < e->n_variants; v++) st = measure(r, v, chunks, nll, kld, &whole, err);
  if (st != TN_OK) {
    free(nll);
    free(kld);
    return st;
  }
  for (uint32_t v = 1; v < e->n_variants; v++) {
    memmove(nll + (size_t)v * whole, nll + (size_t)v * n, whole * sizeof *nll);
    memmove(kld + (size_t)v * whole, kld + (size_t)v * n, whole * sizeof *kld);
  }
  free(e->nll);
  free(e->kld);
  e->nll = nll;
  e->kld = kld;
  e->n_chunks = whole;
  return TN_OK;
}
