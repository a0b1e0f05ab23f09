/* pareto: which variants no other beats in speed, memory and quality at once. See experiment.h. */
#include <math.h>

#include "ab/experiment.h"

/* Quality of a variant, less is better: its divergence, else its perplexity, else how much of its text differs. */
static double loss(const tn_ab_results *r, uint32_t v)
{
  static const tn_ab_metric order[] = {TN_AB_KLD, TN_AB_PPL};
  for (uint32_t i = 0; i < TN_ARRAY_LEN(order); i++)
    if (!isnan(r->at[v][order[i]].b)) return r->at[v][order[i]].b;
  double match = r->at[v][TN_AB_MATCH].b;
  return isnan(match) ? 0 : 1 - match;
}

/* x beats y: better in one, and in none worse. Speed counts only where the run could tell it apart from noise. */
static bool beats(const tn_ab_results *r, uint32_t x, uint32_t y)
{
  const tn_ab_result *sx = &r->at[x][TN_AB_DECODE_TPS], *sy = &r->at[y][TN_AB_DECODE_TPS];
  double speed = log(sx->b / sy->b), memory = r->at[y][TN_AB_KV_BYTES].b - r->at[x][TN_AB_KV_BYTES].b;
  double quality = loss(r, y) - loss(r, x),
         seen = fmax(isfinite(sx->seen) ? sx->seen : 0, isfinite(sy->seen) ? sy->seen : 0);
  bool faster = speed > seen, slower = speed < -seen;
  if (isnan(speed) || slower || memory < 0 || quality < 0) return false;
  return faster || memory > 0 || quality > 0;
}

void tn_ab_pareto(tn_ab_exp *e, const tn_ab_results *r)
{
  for (uint32_t v = 0; v < e->n_variants; v++) {
    bool front = true;
    for (uint32_t u = 0; front && u < e->n_variants; u++) front = u == v || !beats(r, u, v);
    e->variant[v].pareto = front;
  }
}
