/* vec_body: the kernels of vec.h, written once over simd.h. Each vec_<isa>.c includes it with TNK_NAME(x) set. */
#include "simd.h"
#include "vec.h"
#include "vmath.h"

static void quant(const float *x, int64_t k, tnk_cell *out)
{
  const vf top = vf_set1(127.0f), bottom = vf_set1(-127.0f), magic = vf_set1(12582912.0f);
  for (; k > 0; k -= 32, x += 32, out++) {
    const vf a = vf_load_n(x, k), b = k > 16 ? vf_load_n(x + 16, k - 16) : vf_set1(0.0f);
    const float most = vf_top(vf_max(vf_abs(a), vf_abs(b)));
    const vf inv = vf_set1(most > 0.0f ? 127.0f / most : 0.0f);
    vf qa = vf_min(vf_max(vf_mul(a, inv), bottom), top), qb = vf_min(vf_max(vf_mul(b, inv), bottom), top);
    /* to whole numbers, halves to even: there is no room for a fraction above 2^23 */
    qa = vf_sub(vf_add(qa, magic), magic);
    qb = vf_sub(vf_add(qb, magic), magic);
    vf_store_i8(out->q, qa);
    vf_store_i8(out->q + 16, qb);
    out->s = most / 127.0f;
    out->half[0] = (int32_t)vf_sum(qa); /* exact */
    out->half[1] = (int32_t)vf_sum(qb);
    out->sum = out->half[0] + out->half[1];
    out->ssum = out->s * (float)out->sum;
    out->shalf[0] = out->s * (float)out->half[0];
    out->shalf[1] = out->s * (float)out->half[1];
    out->reserved0 = 0;
  }
}

static void dequant(const tnk_cell *c, int64_t k, float *out)
{
  for (; k > 0; k -= 32, c++, out += 32) {
    const vf s = vf_set1(c->s);
    vf_store_n(out, vf_mul(s, vf_load_i8(c->q)), k);
    if (k > 16) vf_store_n(out + 16, vf_mul(s, vf_load_i8(c->q + 16)), k - 16);
  }
}

static void norm(const float *x, const float *w, int64_t n, int64_t span, float eps, float *out)
{
  for (int64_t at = 0; at < n; at += span, x += span, out += span) {
    vf sum = vf_set1(0.0f);
    for (int64_t i = 0; i < span; i += TNK_LANES) {
      const vf v = vf_load_n(x + i, span - i);
      sum = vf_fma(v, v, sum);
    }
    const vf inv = vf_set1(1.0f / sqrtf(vf_sum(sum) / (float)span + eps));
    for (int64_t i = 0; i < span; i += TNK_LANES) {
      vf v = vf_mul(vf_load_n(x + i, span - i), inv);
      if (w) v = vf_mul(v, vf_load_n(w + i, span - i));
      vf_store_n(out + i, v, span - i);
    }
  }
}

static void add(const float *a, const float *b, int64_t n, float *out)
{
  for (int64_t i = 0; i < n; i += TNK_LANES) {
    vf_store_n(out + i, vf_add(vf_load_n(a + i, n - i), vf_load_n(b + i, n - i)), n - i);
  }
}

static void glu(uint32_t act, const float *a, const float *b, int64_t n, float *out)
{
  for (int64_t i = 0; i < n; i += TNK_LANES) {
    vf v = vf_load_n(a + i, n - i);
    if (act == TNK_SILU)
      v = vf_silu(v);
    else if (act == TNK_GELU)
      v = vf_gelu(v);
    if (b) v = vf_mul(v, vf_load_n(b + i, n - i));
    vf_store_n(out + i, v, n - i);
  }
}

static void scale(const float *x, float s, int64_t n, float *out)
{
  for (int64_t i = 0; i < n; i += TNK_LANES) vf_store_n(out + i, vf_mul(vf_load_n(x + i, n - i), vf_set1(s)), n - i);
}

static void softcap(const float *x, float cap, int64_t n, float *out)
{
  const vf c = vf_set1(cap);
  for (int64_t i = 0; i < n; i += TNK_LANES) {
    vf_store_n(out + i, vf_mul(c, vf_tanh(vf_div(vf_load_n(x + i, n - i), c))), n - i);
  }
}

/* (x c - y s, y c + x s), each product rounded. */
TNK_AI void rotate(vf x, vf y, vf c, vf s, vf *u, vf *v)
{
  *u = vf_sub(vf_mul(x, c), vf_mul(y, s));
  *v = vf_add(vf_mul(y, c), vf_mul(x, s));
}

static void rope_pairs(const float *x, const float *cos, const float *sin, int64_t dims, int64_t d, float *out)
{
  int64_t i = 0;
  for (; i + TNK_LANES <= dims / 2; i += TNK_LANES) {
    vf even, odd, u, v;
    vf_load_pairs(x + 2 * i, &even, &odd);
    rotate(even, odd, vf_load(cos + i), vf_load(sin + i), &u, &v);
    vf_store_pairs(out + 2 * i, u, v);
  }
  for (; i < dims / 2; i++) {
    const float even = x[2 * i], odd = x[2 * i + 1];
    out[2 * i] = even * cos[i] - odd * sin[i];
    out[2 * i + 1] = odd * cos[i] + even * sin[i];
  }
  if (out != x) memcpy(out + dims, x + dims, (size_t)(d - dims) * sizeof *x);
}

static void rope_halves(const float *x, const float *cos, const float *sin, int64_t dims, int64_t d, float *out)
{
  const int64_t half = dims / 2;
  for (int64_t i = 0; i < half; i += TNK_LANES) {
    const int64_t n = half - i;
    vf u, v;
    rotate(vf_load_n(x + i, n), vf_load_n(x + half + i, n), vf_load_n(cos + i, n), vf_load_n(sin + i, n), &u, &v);
    vf_store_n(out + i, u, n);
    vf_store_n(out + half + i, v, n);
  }
  if (out != x) memcpy(out + dims, x + dims, (size_t)(d - dims) * sizeof *x);
}

static void exps(const float *x, int64_t n, float *out)
{
  for (int64_t i = 0; i < n; i += TNK_LANES) vf_store_n(out + i, vf_exp(vf_load_n(x + i, n - i)), n - i);
}

const tnk_vec TNK_NAME(tnk_vec) = {
    .quant = quant,
    .dequant = dequant,
    .norm = norm,
    .add = add,
    .glu = glu,
    .scale = scale,
    .softcap = softcap,
    .rope_pairs = rope_pairs,
    .rope_halves = rope_halves,
    .exp = exps,
};
