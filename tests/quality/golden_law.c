/* golden_law: see golden_law.h. */
#include "golden_law.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/sample.h"

static bool read_rows(FILE *f, golden_set *g)
{
  size_t n = (size_t)g->n_prompts * g->n_tokens;
  g->ids = calloc(n, sizeof *g->ids);
  g->rows = calloc(n, sizeof *g->rows);
  bool ok = g->ids && g->rows;
  for (uint32_t p = 0; ok && p < g->n_prompts; p++) {
    size_t at = (size_t)p * g->n_tokens;
    ok = fread(g->ids + at, sizeof *g->ids, g->n_tokens, f) == g->n_tokens &&
         fread(g->rows + at, sizeof *g->rows, g->n_tokens, f) == g->n_tokens;
  }
  return ok && fgetc(f) == EOF;
}

golden_set *golden_set_read(const char *model)
{
  char path[512], magic[4];
  uint32_t head[4];
  snprintf(path, sizeof path, "%s/tests/data/quality/%s.golden", TN_SOURCE_DIR, model);
  FILE *f = fopen(path, "rb");
  golden_set *g = f ? calloc(1, sizeof *g) : NULL;
  bool ok = g && fread(magic, sizeof magic, 1, f) == 1 && memcmp(magic, "TNQ1", 4) == 0;
  ok = ok && fread(head, sizeof head, 1, f) == 1 && head[0] - 1 < 256 && head[1] - 1 < 4096 && head[2] == GOLDEN_TOP;
  if (ok) {
    g->n_prompts = head[0], g->n_tokens = head[1], g->n_vocab = head[3];
    ok = read_rows(f, g);
  }
  if (f) fclose(f);
  if (ok) return g;
  golden_set_free(g);
  return NULL;
}

void golden_set_free(golden_set *g)
{
  if (!g) return;
  free(g->ids);
  free(g->rows);
  free(g);
}

double golden_kld(const golden_law *g, const float *logits, uint32_t n_vocab)
{
  double lse = tn_log_sum_exp(logits, n_vocab), rest = 1, sum = 0;
  for (int i = 0; i < GOLDEN_TOP; i++) {
    double logq = (double)logits[g->id[i]] - lse, logp = (double)g->logprob[i];
    sum += exp(logp) * (logp - logq);
    rest -= exp(logq);
  }
  double p = (double)g->rest;
  return p > 0 ? sum + p * log(p / fmax(rest, 1e-30)) : sum;
}

double full_kld(const float *p, const float *q, uint32_t n)
{
  double lp = tn_log_sum_exp(p, n), lq = tn_log_sum_exp(q, n), sum = 0;
  for (uint32_t i = 0; i < n; i++) {
    double logp = (double)p[i] - lp;
    sum += exp(logp) * (logp - ((double)q[i] - lq));
  }
  return sum;
}

int32_t best_token(const float *logits, uint32_t n, float *gap)
{
  uint32_t best = 0;
  for (uint32_t i = 1; i < n; i++)
    if (logits[i] > logits[best]) best = i;
  float second = -INFINITY;
  for (uint32_t i = 0; i < n; i++)
    if (i != best && logits[i] > second) second = logits[i];
  *gap = logits[best] - second;
  return (int32_t)best;
}

void law_distance_add(law_distance *d, double kld, double lead, bool differs)
{
  d->mean = (d->mean * d->rows + kld) / (d->rows + 1);
  d->rows++;
  if (!(kld <= d->worst)) d->worst = kld;
  if (lead > 1e-2) d->clear++, d->differ += differs;
}
