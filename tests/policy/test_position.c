/* Position plugins: frequencies against formulas written another way. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <string.h>

#include "support/plugin_rig.h"

#define MAX_PAIRS 128

typedef struct table {
  double inv_freq[MAX_PAIRS], mscale;
} table;

static tn_rope_query query(uint32_t dims, double base, int64_t original)
{
  return (tn_rope_query){.struct_size = sizeof(tn_rope_query),
                         .dims = dims,
                         .base = base,
                         .n_ctx_train = original,
                         .n_ctx_orig = original,
                         .scaling = ""};
}

static table ask(const char *name, const char *const *sets, const tn_rope_query *q)
{
  plugin_rig *p = plugin_rig_open(TN_SLOT_POSITION, name, sets);
  const tn_position_v1 *v = p->vtable;
  table t;
  for (int i = 0; i < MAX_PAIRS; i++) t.inv_freq[i] = -1;
  tn_rope_spec spec = {.struct_size = sizeof spec, .inv_freq = t.inv_freq};
  tn_err err = tn_err_init();
  cr_assert(v->table(p->inst, q, &spec, &err) == TN_OK, "%s", err.msg);
  cr_expect(t.inv_freq[q->dims / 2] == -1, "written past the last pair");
  cr_expect(eq(u64, plugin_rig_count(p, 0), 1));
  t.mscale = spec.mscale;
  plugin_rig_close(p);
  return t;
}

static bool near(double a, double b) { return fabs(a - b) <= 1e-14 * fabs(b); }

Test(policy_position, rope_is_a_geometric_row)
{
  static const double bases[] = {10000, 1e5, 1e6, 500000};
  for (size_t b = 0; b < TN_ARRAY_LEN(bases); b++)
    for (uint32_t dims = 2; dims <= 2 * (MAX_PAIRS - 1); dims += 14) {
      tn_rope_query q = query(dims, bases[b], 2048);
      table t = ask("rope", NULL, &q);
      double step = exp(-2 * log(bases[b]) / dims), want = 1;
      cr_assert(t.inv_freq[0] == 1 && t.mscale == 1);
      for (uint32_t i = 0; i < dims / 2; i++, want *= step)
        cr_assert(fabs(t.inv_freq[i] - want) < 1e-12 * want, "pair %u of %u: %.17g, want %.17g", i, dims / 2,
                  t.inv_freq[i], want);
    }
}

Test(policy_position, rope_options_and_the_files_factors)
{
  static const float factors[4] = {1, 2, 4, 0.5f};
  tn_rope_query q = query(8, 10000, 2048);
  table plain = ask("rope", NULL, &q), other = ask("rope", (const char *const[]){"base=500", NULL}, &q);
  q.base = 500;
  table want = ask("rope", NULL, &q);
  cr_expect(memcmp(other.inv_freq, want.inv_freq, 4 * sizeof(double)) == 0);
  q.base = 10000;
  q.factors_short = factors;
  table divided = ask("rope", NULL, &q);
  for (int i = 0; i < 4; i++) cr_expect(divided.inv_freq[i] == plain.inv_freq[i] / (double)factors[i], "pair %d", i);
}

/* ---------------------------------------------------------------- yarn */

/* As the paper says it: by turns over the original context. A pair that turns more than beta_fast times stays, one that
 * turns less than beta_slow is divided by the factor; between them the ramp runs over whole pair numbers. */
static double yarn_pair(uint32_t i, uint32_t dims, double base, double original, double factor)
{
  double per_pair = log(base) / (dims / 2.0);
  double first = floor(log(original / (32 * 2 * acos(-1))) / per_pair); /* the pair that makes 32 turns */
  double last = ceil(log(original / (2 * acos(-1))) / per_pair);        /* the pair that makes 1 turn */
  double plain = exp(-per_pair * i), ramp = (i - first) / (last - first);
  ramp = ramp < 0 ? 0 : ramp > 1 ? 1 : ramp;
  return ramp * plain / factor + (1 - ramp) * plain;
}

static void check_yarn(uint32_t dims, double base, int64_t original, double factor, uint32_t low, uint32_t high)
{
  tn_rope_query q = query(dims, base, original);
  table plain = ask("rope", NULL, &q);
  q.factor = factor;
  q.scaling = "yarn";
  table t = ask("yarn", NULL, &q);
  for (uint32_t i = 0; i < dims / 2; i++) {
    double want = yarn_pair(i, dims, base, (double)original, factor);
    cr_assert(near(t.inv_freq[i], want), "pair %u: %.17g, want %.17g", i, t.inv_freq[i], want);
    if (i <= low) cr_assert(t.inv_freq[i] == plain.inv_freq[i], "pair %u is touched", i);
    if (i > low && i < high)
      cr_assert(t.inv_freq[i] < plain.inv_freq[i] && t.inv_freq[i] > plain.inv_freq[i] / factor, "pair %u", i);
    if (i >= high) cr_assert(near(t.inv_freq[i], plain.inv_freq[i] / factor), "pair %u", i);
  }
  cr_expect(near(t.mscale, 0.1 * log(factor) + 1));
}

Test(policy_position, yarn_by_parts)
{
  check_yarn(64, 1e4, 2048, 4, 8, 21);
  check_yarn(64, 1e5, 8192, 16, 10, 20);
  check_yarn(128, 1e6, 32768, 4, 23, 40);
  check_yarn(64, 1e4, 2048, 1.5, 8, 21);
}

Test(policy_position, yarn_with_factor_1_is_rope)
{
  for (uint32_t dims = 16; dims <= 128; dims += 16) {
    tn_rope_query q = query(dims, 1e4, 2048);
    table plain = ask("rope", NULL, &q), absent = ask("yarn", NULL, &q);
    q.factor = 1;
    table one = ask("yarn", NULL, &q);
    cr_expect(memcmp(plain.inv_freq, one.inv_freq, dims / 2 * sizeof(double)) == 0 && one.mscale == 1);
    cr_expect(memcmp(plain.inv_freq, absent.inv_freq, dims / 2 * sizeof(double)) == 0 && absent.mscale == 1);
  }
}

static bool same(const table *a, const table *b)
{
  return memcmp(a->inv_freq, b->inv_freq, 32 * sizeof(double)) == 0 && a->mscale == b->mscale;
}

/* Each option stands in for the file's value of that name. */
Test(policy_position, yarn_options_go_before_the_file)
{
  static const char *const sets[] = {"factor=8",    "original_ctx=1024", "beta_fast=20",
                                     "beta_slow=2", "attn_factor=1.25",  NULL};
  tn_rope_query file = query(64, 1e4, 1024);
  file.factor = 8, file.beta_fast = 20, file.beta_slow = 2, file.attn_factor = 1.25;
  table want = ask("yarn", NULL, &file);
  cr_expect(near(want.mscale, 1.25 * (0.1 * log(8) + 1)));
  tn_rope_query q = query(64, 1e4, 2048);
  q.factor = 2, q.beta_fast = 32, q.attn_factor = 1;
  table got = ask("yarn", sets, &q);
  cr_expect(same(&got, &want));
  for (int skip = 0; skip < 5; skip++) { /* and every one of them counts */
    const char *some[5];
    int n = 0;
    for (int i = 0; i < 5; i++)
      if (i != skip) some[n++] = sets[i];
    some[n] = NULL;
    got = ask("yarn", some, &q);
    cr_expect(same(&got, &want) == false, "%s has no effect", sets[skip]);
  }
}

/* ---------------------------------------------------------------- linear_scaling, ntk */

static void with_factor(tn_rope_query *q, double factor, int64_t regime) { q->factor = factor, q->regime = regime; }

Test(policy_position, linear_scaling_divides_positions)
{
  static const float own[4] = {1, 2, 4, 8};
  for (uint32_t dims = 2; dims <= 128; dims += 18) {
    tn_rope_query q = query(dims, 1e5, 8192);
    table plain = ask("rope", NULL, &q), one = ask("linear_scaling", NULL, &q);
    cr_expect(memcmp(plain.inv_freq, one.inv_freq, sizeof plain.inv_freq) == 0 && one.mscale == 1, "factor 1 is rope");
    with_factor(&q, 4, 0);
    table file = ask("linear_scaling", NULL, &q), set = ask("linear_scaling", (const char *[]){"factor=3", NULL}, &q);
    for (uint32_t i = 0; i < dims / 2; i++) {
      cr_assert(near(file.inv_freq[i] * 4, plain.inv_freq[i]), "pair %u of %u", i, dims / 2);
      cr_assert(near(set.inv_freq[i] * 3, plain.inv_freq[i]), "pair %u of %u, by the option", i, dims / 2);
    }
  }
  tn_rope_query q = query(8, 1e4, 2048);
  with_factor(&q, 2, 0);
  q.factors_short = own;
  table t = ask("linear_scaling", NULL, &q);
  for (int i = 0; i < 4; i++) cr_expect(near(t.inv_freq[i], pow(10, -i) / 2 / (double)own[i]), "pair %d", i);
}

/* Its purpose: the slowest pair is divided by the factor, the fastest is left alone, the row stays geometric. */
Test(policy_position, ntk_stretches_the_slowest_pair)
{
  for (uint32_t dims = 4; dims <= 128; dims += 12)
    for (double factor = 1; factor <= 32; factor *= 2) {
      uint32_t last = dims / 2 - 1;
      tn_rope_query q = query(dims, 5e5, 4096);
      table plain = ask("rope", NULL, &q);
      with_factor(&q, factor, 0);
      table t = ask("ntk", NULL, &q);
      cr_assert(t.inv_freq[0] == 1 && t.mscale == 1);
      cr_assert(fabs(t.inv_freq[last] * factor / plain.inv_freq[last] - 1) < 1e-12,
                "%u pairs, factor %g: last is %.17g", last + 1, factor, t.inv_freq[last]);
      for (uint32_t i = 1; i < last; i++)
        cr_assert(fabs(t.inv_freq[i] * t.inv_freq[i] / (t.inv_freq[i - 1] * t.inv_freq[i + 1]) - 1) < 1e-12);
    }
  tn_rope_query two = query(2, 1e4, 2048);
  with_factor(&two, 8, 0);
  cr_expect(ask("ntk", NULL, &two).inv_freq[0] == 1);
}

static table dynamic(double factor, int64_t original, int64_t length)
{
  tn_rope_query q = query(64, 1e4, original);
  with_factor(&q, factor, length);
  return ask("ntk", (const char *[]){"mode=dynamic", NULL}, &q);
}

/* By length: plain up to the original context, then the static form of the stretch s T / L0 - (s - 1). */
Test(policy_position, ntk_by_length)
{
  tn_rope_query q = query(64, 1e4, 2048);
  table plain = ask("rope", NULL, &q);
  for (double s = 1; s < 5; s += 1.5)
    for (int64_t length = 0; length <= 9216; length += 512) {
      table t = dynamic(s, 2048, length);
      with_factor(&q, length > 2048 ? s * (double)(length - 2048) / 2048 + 1 : 1, 0);
      table want = length > 2048 ? ask("ntk", NULL, &q) : plain;
      for (int i = 0; i < 32; i++)
        cr_assert(fabs(t.inv_freq[i] / want.inv_freq[i] - 1) < 1e-12, "factor %g, %d tokens, pair %d", s, (int)length,
                  i);
    }
}

Test(policy_position, ntk_lengths_are_rounded_up)
{
  plugin_rig *fixed = plugin_rig_open(TN_SLOT_POSITION, "ntk", NULL);
  plugin_rig *p = plugin_rig_open(TN_SLOT_POSITION, "ntk", (const char *[]){"mode=dynamic", "step=100", NULL});
  const tn_position_v1 *v = p->vtable;
  static const int64_t of[][2] = {{1, 100}, {100, 100}, {101, 200}, {2048, 2100}, {1000000, 1000000}};
  for (size_t i = 0; i < TN_ARRAY_LEN(of); i++) {
    cr_expect(eq(i64, v->regime(p->inst, 1, of[i][0]), of[i][1]));
    cr_expect(eq(i64, v->regime(fixed->inst, 1, of[i][0]), 0));
  }
  cr_expect(v->regime(p->inst, 1, TN_POS_INF) <= TN_POS_INF, "no overflow");
  plugin_rig_close(p);
  plugin_rig_close(fixed);
}

/* ---------------------------------------------------------------- another implementation */

typedef struct golden { /* six of 32 frequencies, f32 */
  const char *name, *set;
  double base, factor;
  int64_t original, length;
  double pair[6];
} golden;

/* transformers 5.24.0, ROPE_INIT_FUNCTIONS of "linear" and "dynamic", heads of 64. */
Test(policy_position, as_transformers_has_it)
{
  static const int at[6] = {0, 1, 8, 16, 30, 31};
  static const golden g[] = {{"linear_scaling",
                              "factor=4",
                              1e5,
                              0,
                              8192,
                              0,
                              {0.25, 0.174457639, 0.0140585322, 0.000790569466, 5.13381246e-06, 3.58253169e-06}},
                             {"ntk",
                              "mode=dynamic",
                              1e4,
                              2,
                              2048,
                              2048,
                              {1, 0.749894202, 0.100000001, 0.00999999978, 0.00017782794, 0.00013335215}},
                             {"ntk",
                              "mode=dynamic",
                              1e4,
                              2,
                              2048,
                              4096,
                              {1, 0.72378397, 0.0753133446, 0.0056721, 6.14143355e-05, 4.44507132e-05}},
                             {"ntk",
                              "mode=dynamic",
                              1e4,
                              2,
                              2048,
                              8192,
                              {1, 0.70426929, 0.0605215691, 0.00366286025, 2.70497476e-05, 1.90503069e-05}}};
  for (size_t k = 0; k < TN_ARRAY_LEN(g); k++) {
    tn_rope_query q = query(64, g[k].base, g[k].original);
    with_factor(&q, g[k].factor, g[k].length);
    table t = ask(g[k].name, (const char *[]){g[k].set, NULL}, &q);
    for (int i = 0; i < 6; i++)
      cr_expect(fabs(t.inv_freq[at[i]] / g[k].pair[i] - 1) < 1e-6, "%s, %d tokens, pair %d: %.9g, want %.9g", g[k].name,
                (int)g[k].length, at[i], t.inv_freq[at[i]], g[k].pair[i]);
  }
}
