/* order_attend: partials of tiles and their joins. */
#include "order_attend.h"

#include <math.h>

#include "order_math.h"

float tnk_order_score(const float *q, const float *k, int64_t d, float scale, float cap)
{
  float s = 0.0f;
  for (int64_t i = 0; i < d; i++) s = fmaf(q[i], k[i], s);
  s = s * scale;
  return cap > 0.0f ? tnk_order_softcap(s, cap) : s;
}

void tnk_order_tile(int n, const int *rank, float *score, const float *const *v, int64_t dv, tnk_order_part *out)
{
  float lane[16] = {0};
  out->any = n > 0;
  out->m = -INFINITY;
  for (int i = 0; i < n; i++) out->m = score[i] > out->m ? score[i] : out->m;
  for (int i = 0; i < n; i++) {
    score[i] = tnk_order_exp(score[i] - out->m);
    lane[rank[i] % 16] += score[i];
  }
  out->l = tnk_order_lanes(lane);
  for (int64_t c = 0; c < dv; c++) {
    float o = 0.0f;
    for (int i = 0; i < n; i++) o = fmaf(score[i], v[i][c], o);
    out->o[c] = o;
  }
}

static void copy(tnk_order_part *to, const tnk_order_part *from, int64_t dv)
{
  to->any = from->any;
  to->m = from->m;
  to->l = from->l;
  for (int64_t c = 0; c < dv; c++) to->o[c] = from->o[c];
}

void tnk_order_join(tnk_order_part *a, const tnk_order_part *b, int64_t dv)
{
  if (!b->any) return;
  if (!a->any) {
    copy(a, b, dv);
    return;
  }
  const float top = a->m > b->m ? a->m : b->m;
  const float e1 = tnk_order_exp(a->m - top), e2 = tnk_order_exp(b->m - top);
  a->m = top;
  a->l = fmaf(b->l, e2, a->l * e1);
  for (int64_t c = 0; c < dv; c++) a->o[c] = fmaf(b->o[c], e2, a->o[c] * e1);
}

void tnk_order_finish(const tnk_order_part *p, int64_t dv, float *out, float *lse)
{
  const float inverse = p->any ? 1.0f / p->l : 0.0f;
  for (int64_t c = 0; c < dv; c++) out[c] = p->any ? p->o[c] * inverse : 0.0f;
  if (lse) *lse = p->any ? p->m + tnk_order_log(p->l) : -INFINITY;
}

float tnk_order_share(const tnk_order_part *p, float score) { return tnk_order_exp(score - p->m) / p->l; }

void tnk_order_merge(const float *o, int64_t o_stride, const float *lse, int64_t lse_stride, uint32_t parts, int64_t d,
                     float *out, float *out_lse)
{
  float top = -INFINITY, sum = 0.0f;
  for (uint32_t p = 0; p < parts; p++) top = lse[p * lse_stride] > top ? lse[p * lse_stride] : top;
  const bool any = top > -INFINITY;
  for (uint32_t p = 0; any && p < parts; p++) sum += tnk_order_exp(lse[p * lse_stride] - top);
  for (int64_t c = 0; c < d; c++) out[c] = 0.0f;
  for (uint32_t p = 0; any && p < parts; p++) {
    if (!(lse[p * lse_stride] > -INFINITY)) continue;
    const float w = tnk_order_exp(lse[p * lse_stride] - top) / sum;
    for (int64_t c = 0; c < d; c++) out[c] = fmaf(w, o[p * o_stride + c], out[c]);
  }
  if (out_lse) *out_lse = any ? top + tnk_order_log(sum) : -INFINITY;
}
