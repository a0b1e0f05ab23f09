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
