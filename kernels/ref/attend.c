/* attend: one query's softmax, in two passes. */
#include "attend.h"

#include <math.h>

#include "glu.h"

double tnk_ref_score(const float *q, const float *k, int64_t d, double scale, double cap)
{
  double a[4] = {0};
  int64_t i = 0;
  for (; i + 4 <= d; i += 4) {
    for (int j = 0; j < 4; j++) a[j] += (double)q[i + j] * (double)k[i + j];
  }
  for (int64_t j = 0; i + j < d; j++) a[j] += (double)q[i + j] * (double)k[i + j];
  const double s = ((a[0] + a[1]) + (a[2] + a[3])) * scale;
  return cap > 0 ? tnk_ref_softcap(s, cap) : s;
}

void tnk_ref_softmax_begin(tnk_softmax *st, double *o, int64_t dv)
{
  *st = (tnk_softmax){-INFINITY, 0, o};
  for (int64_t i = 0; i < dv; i++) o[i] = 0;
}

void tnk_ref_softmax_max(tnk_softmax *st, double s)
{
  if (s > st->max) st->max = s;
}

void tnk_ref_softmax_add(tnk_softmax *st, double s, const float *v, int64_t dv)
{
  const double p = exp(s - st->max);
  st->sum += p;
  for (int64_t i = 0; i < dv; i++) st->o[i] += p * (double)v[i];
}

double tnk_ref_softmax_share(const tnk_softmax *st, double s) { return exp(s - st->max) / st->sum; }

void tnk_ref_softmax_end(const tnk_softmax *st, int64_t dv, float *out, float *lse)
{
  for (int64_t i = 0; i < dv; i++) out[i] = st->sum > 0 ? (float)(st->o[i] / st->sum) : 0.0f;
  if (lse) *lse = st->sum > 0 ? (float)(st->max + log(st->sum)) : -INFINITY;
}
