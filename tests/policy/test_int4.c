/* int4: its codes against the nearest of the levels, found one by one; its layouts through both backends. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "loader/loader.h"
#include "support/backend_host.h"
#include "support/engine_rig.h"

enum { ROWS = 24, K = 256 };

typedef struct coded {
  tn_instance in;
  const tn_layout *layout;
  uint8_t codes[ROWS * K];
  float scale[ROWS * K / 16], offset[ROWS * K / 16];
  int64_t groups, width;
} coded;

static const tn_desc *int4(void)
{
  tn_loader_cfg cfg = {.lib_dir = TN_BUILD_DIR "/lib/tenon"};
  tn_loader *loader;
  const tn_plugin *plugin;
  tn_err err = tn_err_init();
  cr_assert(tn_loader_new(&cfg, &loader, &err) == TN_OK, "%s", err.msg);
  cr_assert(tn_loader_open(loader, TN_SLOT_QUANTIZER, "int4", NULL, &plugin, &err) == TN_OK, "%s", err.msg);
  const tn_desc *desc = plugin->desc;
  tn_loader_free(loader); /* never unloads */
  return desc;
}

static tn_value number(uint32_t type, int64_t i) { return (tn_value){.type = type, .v.i = i}; }

/* An instance, and w [ROWS][K] encoded by it. Release with tn_instance_release(&c->in). */
static void encode(const float *w, int64_t group, bool asymmetric, coded *c)
{
  static tn_services none;
  static tn_value values[3];
  tn_err err = tn_err_init();
  values[0] = number(TN_T_I64, group), values[1] = number(TN_T_ENUM, asymmetric), values[2] = number(TN_T_BOOL, 0);
  cr_assert(tn_instance_new(int4(), values, &none, &c->in, &err) == TN_OK, "%s", err.msg);
  const tn_quantizer_v1 *v = c->in.desc->vtable;
  tn_tensor_info info = {.struct_size = sizeof info, .role = TN_ROLE_UP, .name = "w", .n = ROWS, .k = K};
  cr_assert(v->take(c->in.inst, &info, &c->layout, &err) == TN_OK, "%s", err.msg);
  c->width = group ? group : K;
  c->groups = K / c->width;
  tn_qblock b = {.struct_size = sizeof b,
                 .info = &info,
                 .n_rows = ROWS,
                 .w = w,
                 .codes = c->codes,
                 .scale = c->scale,
                 .offset = asymmetric ? c->offset : NULL};
  memset(c->codes, 0xAA, sizeof c->codes);
  cr_assert(v->encode(c->in.inst, c->layout, &b) == TN_OK);
}

static float value_of(const coded *c, bool asymmetric, int64_t i, int code)
{
  int64_t g = i / K * c->groups + i % K / c->width;
  return c->scale[g] * ((float)code - (asymmetric ? c->offset[g] : 8.0f));
}

/* Sum of twelve uniform draws: normal enough, the same everywhere. */
static void normal(uint32_t seed, float *w, int64_t n)
{
  for (int64_t i = 0; i < n; i++) {
    float sum = -6;
    for (int k = 0; k < 12; k++) {
      seed = seed * 1664525u + 1013904223u;
      sum += (float)(seed >> 8) / 16777216.0f;
    }
    w[i] = sum;
  }
}

/* Rows of many kinds: scales from 2^-20 on, of one sign, with one large value, all zero, all equal. */
static void rows_of_many_kinds(float *w)
{
  normal(7, w, ROWS * K);
  for (int64_t i = 0; i < ROWS * K; i++) {
    int64_t r = i / K, c = i % K;
    w[i] = ldexpf(w[i], (int)(r % 12) - 20);
    if (r == 5) w[i] = fabsf(w[i]);
    if (r == 6) w[i] = -fabsf(w[i]);
    if (r == 7 && c % 64 == 3) w[i] = 40;
    if (r == 8) w[i] = 0;
    if (r == 9) w[i] = 3;
    if (r == 10) w[i] = -1e-7f;
    if (r == 11) w[i] = c % 2 ? 7.5f : -8;
  }
}

static void check(int64_t group, bool asymmetric)
{
  static float w[ROWS * K];
  static coded c;
  rows_of_many_kinds(w);
  encode(w, group, asymmetric, &c);
  for (int64_t i = 0; i < ROWS * K; i++) {
    float best = INFINITY, x = value_of(&c, asymmetric, i, c.codes[i]), s = fabsf(c.scale[i / c.width]);
    for (int q = 0; q < 16; q++) best = fminf(best, fabsf(w[i] - value_of(&c, asymmetric, i, q)));
    cr_assert(c.codes[i] < 16, "code %u at %lld", c.codes[i], (long long)i);
    cr_assert(fabsf(w[i] - x) <= best * 1.00001f, "value %g became %g at %lld, %g off the nearest level", (double)w[i],
              (double)x, (long long)i, (double)best);
    cr_assert(fabsf(w[i] - x) <= s * 0.50001f, "value %g became %g, the step is %g", (double)w[i], (double)x,
              (double)s);
    if (w[i] == 0) cr_assert(x == 0, "zero became %g", (double)x);
  }
  cr_assert(eq(u64, tn_instance_count(&c.in, 0), ROWS));
  cr_assert(eq(u64, tn_instance_release(&c.in), 0));
}

Test(int4, nearest_level_symmetric_32) { check(32, false); }
Test(int4, nearest_level_symmetric_128) { check(128, false); }
Test(int4, nearest_level_symmetric_row) { check(0, false); }
Test(int4, nearest_level_asymmetric_16) { check(16, true); }
Test(int4, nearest_level_asymmetric_row) { check(0, true); }

/* Levels that are asked for exactly come back exactly: the value without an opposite is -8 or 8 steps. */
Test(int4, its_own_levels_are_exact)
{
  static float w[ROWS * K];
  static coded c;
  for (int sign = -1; sign <= 1; sign += 2) {
    for (int64_t i = 0; i < ROWS * K; i++) w[i] = (float)sign * 0.375f * (float)((i % 16) - 8);
    encode(w, 32, false, &c);
    for (int64_t i = 0; i < ROWS * K; i++) {
      cr_assert(eq(int, c.codes[i], (int)(i % 16)));
      cr_assert(value_of(&c, false, i, c.codes[i]) == w[i]);
    }
    cr_assert(eq(u64, tn_instance_release(&c.in), 0));
  }
}

static double mse(int64_t group, bool asymmetric)
{
  static float w[ROWS * K];
  static coded c;
  double err = 0, var = 0;
  normal(3, w, ROWS * K);
  encode(w, group, asymmetric, &c);
  for (int64_t i = 0; i < ROWS * K; i++) {
    double d = (double)w[i] - (double)value_of(&c, asymmetric, i, c.codes[i]);
    err += d * d;
    var += (double)w[i] * (double)w[i];
  }
  cr_assert(eq(u64, tn_instance_release(&c.in), 0));
  return err / var;
}

/* A step is range / 15, so the error on a normal law is range^2 / 2700: a range of 4.1 sigma for 32 values, 5.5 for
 * 256. */
Test(int4, error_on_a_normal_law)
{
  double fine = mse(32, true), plain = mse(32, false), wide = mse(0, true);
  cr_expect(fine > 0.005 && fine < 0.0075, "%g", fine);
  cr_expect(plain > 0.0055 && plain < 0.0095, "%g", plain);
  cr_expect(wide > 0.009 && wide < 0.0135, "%g", wide);
  cr_expect(mse(16, false) < plain && plain < mse(128, false));
}

Test(int4, a_group_that_does_not_divide_is_refused)
{
  static coded c;
  static float w[ROWS * K];
  tn_err err = tn_err_init();
  const tn_layout *l, *v;
  encode(w, 64, false, &c);
  const tn_quantizer_v1 *vt = c.in.desc->vtable;
  tn_tensor_info info = {.struct_size = sizeof info, .role = TN_ROLE_DOWN, .name = "blk.0.ffn_down.weight", .k = 96};
  cr_assert(eq(int, vt->take(c.in.inst, &info, &l, &err), TN_E_ARG));
  cr_assert(strstr(err.msg, "64") && strstr(err.msg, "96") && strstr(err.msg, "blk.0.ffn_down.weight"), "%s", err.msg);
  tn_model_shape shape = {.struct_size = sizeof shape, .d_head = 32};
  cr_assert(eq(int, vt->kv_layout(c.in.inst, &shape, &l, &v, &err), TN_E_ARG));
  cr_assert(strstr(err.msg, "64") && strstr(err.msg, "32"), "%s", err.msg);
  info.role = TN_ROLE_NORM;
  cr_assert(eq(int, vt->take(c.in.inst, &info, &l, &err), TN_E_UNSUPPORTED));
  info.role = TN_ROLE_EMBED;
  cr_assert(eq(int, vt->take(c.in.inst, &info, &l, &err), TN_E_UNSUPPORTED));
  tn_value bad = number(TN_T_I64, 24);
  cr_assert(eq(int, c.in.desc->validate(NULL, &bad, &err), TN_E_ARG));
  cr_assert(strstr(err.msg, "24") != NULL, "%s", err.msg);
  tn_instance_release(&c.in);
}

/* Every code of a row comes back from the backend's own packing as its level. */
static void codes_through(const char *backend_name, bool asymmetric)
{
  static float w[ROWS * K], got[ROWS * K];
  static coded c;
  tn_err err = tn_err_init();
  normal(11, w, ROWS * K);
  encode(w, 32, asymmetric, &c);
  for (int64_t i = 0; i < ROWS * K; i++) c.codes[i] = (uint8_t)((i * 7 + i / 16) % 16);
  backend *b = backend_open(backend_name, 1, NULL, &err);
  cr_assert(b != NULL, "%s", err.msg);
  tn_weight_src src = {.struct_size = sizeof src,
                       .kind = TN_W_CODES,
                       .name = "w",
                       .dtype = TN_DT_LAYOUT,
                       .role = TN_ROLE_UP,
                       .n = ROWS,
                       .k = K,
                       .layout = c.layout,
                       .codes = c.codes,
                       .scale = c.scale,
                       .offset = asymmetric ? c.offset : NULL};
  tn_tensor t;
  cr_assert(b->v->weight_load(b->inst, &src, &t, &err) == TN_OK, "%s", err.msg);
  cr_assert(b->v->weight_read(b->inst, &t, 0, ROWS, got) == TN_OK);
  for (int64_t i = 0; i < ROWS * K; i++)
    cr_assert(got[i] == value_of(&c, asymmetric, i, c.codes[i]), "%s: code %u at %lld is %g", backend_name, c.codes[i],
              (long long)i, (double)got[i]);
  b->v->weight_free(b->inst, &t);
  cr_assert(eq(u64, backend_close(b), 0));
  tn_instance_release(&c.in);
}

Test(int4, codes_through_ref_symmetric) { codes_through("ref", false); }
Test(int4, codes_through_ref_asymmetric) { codes_through("ref", true); }
Test(int4, codes_through_cpu_symmetric) { codes_through("cpu", false); }
Test(int4, codes_through_cpu_asymmetric) { codes_through("cpu", true); }

/* Mean divergence of the next token's law from the model's own, over the rows of one scored prompt. */
static double divergence(const char *const *sets)
{
  static const char *const plain[] = {"compose.backend=ref", NULL};
  rig_pair pair = rig_score_both(rig_tiny("llama"), plain, sets, 2, 64);
  const rig *a = pair.a, *b = pair.b;
  double sum = 0;
  for (int64_t r = 0; r < 64; r++) {
    const float *p = a->r[0].rows + r * a->n_vocab, *q = b->r[0].rows + r * a->n_vocab;
    double zp = tn_log_sum_exp(p, a->n_vocab), zq = tn_log_sum_exp(q, a->n_vocab);
    for (uint32_t i = 0; i < a->n_vocab; i++) {
      double lp = (double)p[i] - zp;
      sum += exp(lp) * (lp - ((double)q[i] - zq));
    }
  }
  rig_close_both(pair);
  return sum / 64;
}

/* Fewer bits and larger groups cost more. */
Test(int4, costs_more_than_int8_and_less_in_small_groups)
{
  static const char *const eight[] = {"compose.backend=ref", "compose.weights=int8", NULL};
  static const char *const four[] = {"compose.backend=ref", "compose.weights=int4", NULL};
  static const char *const wide[] = {"compose.backend=ref", "compose.weights=int4", "quantizer.int4.group=0", NULL};
  static const char *const kv[] = {"compose.backend=ref", "compose.kv=int4", "quantizer.int4@kv.group=16", NULL};
  double d8 = divergence(eight), d4 = divergence(four), dw = divergence(wide), dk = divergence(kv);
  cr_expect(d8 < d4 && d4 < dw, "divergence: int8 %g, int4 %g, int4 by row %g", d8, d4, dw);
  cr_expect(dk > 0 && dk < 1, "divergence: int4 cache %g", dk);
}
