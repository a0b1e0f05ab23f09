/* int8: codes and scales by the sheet: errors of half a step at most, an exact zero, codes that stay when values are
 * encoded again; what it takes and what it refuses. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/plugin_rig.h"

enum { ROWS = 6, K = 128 };
#define SETS(...) ((const char *const[]){__VA_ARGS__, NULL})

typedef struct encoded {
  uint8_t codes[ROWS * K];
  float scale[ROWS * K / 16], offset[ROWS * K / 16];
  int64_t group;
  bool asymmetric;
} encoded;

static plugin_rig *int8_of(const char *const *sets) { return plugin_rig_open(TN_SLOT_QUANTIZER, "int8", sets); }

static const tn_layout *layout_of(plugin_rig *p)
{
  const tn_quantizer_v1 *v = p->vtable;
  tn_tensor_info info = {
      .struct_size = sizeof info, .role = TN_ROLE_UP, .name = "blk.0.ffn_up.weight", .n = ROWS, .k = K};
  const tn_layout *l = NULL;
  cr_assert(v->take(p->inst, &info, &l, NULL) == TN_OK && l != NULL);
  return l;
}

static encoded encode(plugin_rig *p, const float *w)
{
  static encoded e;
  const tn_quantizer_v1 *v = p->vtable;
  const tn_layout *l = layout_of(p);
  tn_tensor_info info = {.struct_size = sizeof info, .role = TN_ROLE_UP, .name = "w", .n = ROWS, .k = K};
  memset(&e, 0xee, sizeof e);
  e.group = l->group ? l->group : K;
  e.asymmetric = l->offset == TN_OFF_INT;
  cr_assert(l->kind == TN_LAY_AFFINE && l->bits == 8 && l->super == 0 && l->scale_type == TN_DT_F32);
  tn_qblock b = {.struct_size = sizeof b,
                 .info = &info,
                 .n_rows = ROWS,
                 .w = w,
                 .codes = e.codes,
                 .scale = e.scale,
                 .offset = e.asymmetric ? e.offset : NULL};
  cr_assert(v->encode(p->inst, l, &b) == TN_OK);
  return e;
}

static void decode(const encoded *e, float *w)
{
  for (int i = 0; i < ROWS * K; i++) {
    int64_t g = i / e->group;
    w[i] = e->scale[g] * (float)(e->codes[i] - (e->asymmetric ? (int)e->offset[g] : 128));
  }
}

static float uniform(uint32_t *x)
{
  *x = *x * 1664525u + 1013904223u;
  return (float)((double)*x * 0x1p-32);
}

enum { PLAIN, POSITIVE, NEGATIVE, ONE_LARGE, ZEROS, TINY, HUGE_ONES, N_KINDS };

static void fill(float *w, int kind, uint32_t *x)
{
  for (int i = 0; i < ROWS * K; i++) {
    float u = uniform(x) * 2 - 1;
    w[i] = kind == POSITIVE    ? fabsf(u)
           : kind == NEGATIVE  ? -fabsf(u) - 0.5f
           : kind == ONE_LARGE ? (i % 16 == 3 ? 100 * u : u * 0.01f)
           : kind == ZEROS     ? 0
           : kind == TINY      ? u * 1e-36f
           : kind == HUGE_ONES ? u * 3e38f
                               : u;
    if (i % 7 == 5) w[i] = 0;
  }
}

/* Half a step, and what rounding of x / s and of s q in f32 adds. */
static void check(const float *w, const encoded *e, const float *back, int kind)
{
  for (int i = 0; i < ROWS * K; i++) {
    double s = (double)e->scale[i / e->group], err = fabs((double)w[i] - (double)back[i]);
    cr_assert(err <= s / 2 + 260 * s * FLT_EPSILON + FLT_TRUE_MIN, "kind %d: %g became %g, step %g", kind, (double)w[i],
              (double)back[i], s);
    cr_assert(w[i] != 0 || back[i] == 0, "kind %d: zero became %g", kind, (double)back[i]);
    cr_assert(e->asymmetric || e->codes[i] >= 1, "-128 is not used");
  }
}

/* The scale is that of the sheet, in each group. */
static void check_scales(const float *w, const encoded *e)
{
  for (int64_t g = 0; g < ROWS * K / e->group; g++) {
    float low = 0, high = 0;
    for (int64_t i = g * e->group; i < (g + 1) * e->group; i++) {
      low = w[i] < low ? w[i] : low;
      high = w[i] > high ? w[i] : high;
    }
    float most = -low > high ? -low : high;
    cr_assert(e->scale[g] == (e->asymmetric ? (high - low) / 255.0f : most / 127.0f), "group %d", (int)g);
  }
}

Test(policy_int8, half_a_step_at_most)
{
  static const char *const groups[] = {"group=32", "group=0", "group=16", "group=128"};
  static float w[ROWS * K], back[ROWS * K], again[ROWS * K];
  uint32_t x = 1;
  for (int scheme = 0; scheme < 2; scheme++)
    for (size_t g = 0; g < TN_ARRAY_LEN(groups); g++) {
      plugin_rig *p = int8_of(SETS(groups[g], scheme ? "scheme=asymmetric" : "scheme=symmetric"));
      for (int kind = 0; kind < N_KINDS; kind++) {
        if (kind == HUGE_ONES && scheme) continue; /* hi - lo is past f32 */
        fill(w, kind, &x);
        encoded e = encode(p, w);
        decode(&e, back);
        check(w, &e, back, kind);
        check_scales(w, &e);
        if (kind == TINY) continue; /* steps near the smallest numbers */
        encoded twice = encode(p, back);
        cr_assert(memcmp(twice.codes, e.codes, sizeof e.codes) == 0, "scheme %d, %s, kind %d: other codes", scheme,
                  groups[g], kind);
        decode(&twice, again);
        for (int i = 0; i < ROWS * K; i++) cr_assert(fabsf(again[i] - back[i]) <= 1e-6f * fabsf(back[i]));
      }
      cr_expect(plugin_rig_count(p, 0) >= 6 * ROWS, "rows encoded are counted");
      plugin_rig_close(p);
    }
}

/* All of one sign: an offset wins a bit. */
Test(policy_int8, asymmetric_is_finer_on_one_sided_values)
{
  static float w[ROWS * K], a[ROWS * K], b[ROWS * K];
  uint32_t x = 2;
  double worst[2] = {0, 0};
  fill(w, POSITIVE, &x);
  plugin_rig *sym = int8_of(NULL), *asym = int8_of(SETS("scheme=asymmetric"));
  encoded e = encode(sym, w);
  decode(&e, a);
  e = encode(asym, w);
  decode(&e, b);
  for (int i = 0; i < ROWS * K; i++) {
    worst[0] = fmax(worst[0], fabs((double)(w[i] - a[i])));
    worst[1] = fmax(worst[1], fabs((double)(w[i] - b[i])));
  }
  cr_expect(worst[1] < 0.6 * worst[0], "%g, %g", worst[0], worst[1]);
  plugin_rig_close(sym);
  plugin_rig_close(asym);
}

/* ---------------------------------------------------------------- what it takes */

static tn_status take(plugin_rig *p, uint32_t role, int64_t k, tn_err *err)
{
  const tn_quantizer_v1 *v = p->vtable;
  const tn_layout *l;
  tn_tensor_info info = {.struct_size = sizeof info, .role = role, .name = "blk.1.attn_q.weight", .n = 8, .k = k};
  return v->take(p->inst, &info, &l, err);
}

Test(policy_int8, matrices_but_not_norms_and_biases)
{
  static const uint32_t matrices[] = {TN_ROLE_Q,    TN_ROLE_K,  TN_ROLE_V,    TN_ROLE_ATTN_OUT,
                                      TN_ROLE_GATE, TN_ROLE_UP, TN_ROLE_DOWN, TN_ROLE_HEAD};
  plugin_rig *p = int8_of(NULL), *all = int8_of(SETS("embeddings=1"));
  for (size_t i = 0; i < TN_ARRAY_LEN(matrices); i++) cr_expect(take(p, matrices[i], 64, NULL) == TN_OK);
  cr_expect(take(p, TN_ROLE_NORM, 64, NULL) == TN_E_UNSUPPORTED);
  cr_expect(take(p, TN_ROLE_BIAS, 64, NULL) == TN_E_UNSUPPORTED);
  cr_expect(take(p, TN_ROLE_OTHER, 64, NULL) == TN_E_UNSUPPORTED);
  cr_expect(take(p, TN_ROLE_EMBED, 64, NULL) == TN_E_UNSUPPORTED);
  cr_expect(take(all, TN_ROLE_EMBED, 64, NULL) == TN_OK);
  plugin_rig_close(p);
  plugin_rig_close(all);
}

Test(policy_int8, a_group_must_divide)
{
  tn_err err = tn_err_init();
  tn_model_shape m = {.struct_size = sizeof m, .d_head = 48};
  const tn_layout *k, *v;
  plugin_rig *p = int8_of(SETS("group=32"));
  const tn_quantizer_v1 *q = p->vtable;
  cr_expect(take(p, TN_ROLE_Q, 80, &err) == TN_E_ARG);
  cr_expect(strstr(err.msg, "32") && strstr(err.msg, "80") && strstr(err.msg, "attn_q"), "%s", err.msg);
  cr_expect(q->kv_layout(p->inst, &m, &k, &v, &err) == TN_E_ARG);
  cr_expect(strstr(err.msg, "32") && strstr(err.msg, "48"), "%s", err.msg);
  m.d_head = 64;
  cr_assert(q->kv_layout(p->inst, &m, &k, &v, &err) == TN_OK);
  cr_expect(k->bits == 8 && k->group == 32 && k->scale_type == TN_DT_F16 && k->offset == TN_OFF_NONE && v == k);
  plugin_rig_close(p);
  static const char *const bad[] = {"group=8", "group=24", "group=17"};
  for (size_t i = 0; i < TN_ARRAY_LEN(bad); i++) {
    p = int8_of(SETS(bad[i]));
    cr_expect(plugin_rig_validate(p, NULL, &err) == TN_E_ARG, "%s", bad[i]);
    cr_expect(strstr(err.msg, "multiple of 16") != NULL, "%s", err.msg);
    plugin_rig_close(p);
  }
}
