/* same_bits: see same_bits.h. */
#include "same_bits.h"

#include <criterion/criterion.h>

/* Lengths on both sides of the attention tiles of 64. */
static const int64_t scored[SAME_ALL] = {17, 65, 40, 140, 64, 100, 97, 180};
static const int64_t prompted[SAME_ALL] = {1, 63, 31, 90, 8, 65, 70, 84};

/* Up to 12 settings of a case, NULL-terminated. */
typedef struct setting {
  const char *at[13];
} setting;

static setting with(const char *const *base, const char *a, const char *b)
{
  setting s = {{0}};
  int n = 0;
  for (; base[n]; n++) s.at[n] = base[n];
  s.at[n++] = a;
  s.at[n++] = b;
  return s;
}

static void submit(rig *r, uint32_t from, uint32_t to)
{
  int32_t tokens[200];
  for (uint32_t i = from; i < to; i++) {
    rig_tokens(i + 1, r->n_vocab, tokens, 200);
    rig_score(r, tokens, scored[i]);
    rig_generate(r, tokens, prompted[i], 12);
  }
}

static void check_alone(const rig *together, const char *model, const char *const *sets, uint32_t n)
{
  rig *alone = rig_open(model, sets);
  for (uint32_t i = 0; i < n; i++) {
    rig_clear(alone);
    submit(alone, i, i + 1);
    rig_run(alone, 0);
    cr_assert(rig_same(together, 2 * i, alone, 0), "sequence %u scored alone differs", i);
    cr_assert(rig_same(together, 2 * i + 1, alone, 1), "sequence %u generated alone differs", i);
  }
  rig_close(alone);
}

void same_bits_check(const char *model, const char *const *base, uint32_t n)
{
  static const char *const variants[][2] = {{"engine.threads=1", "engine.max_rows=1"},
                                            {"engine.threads=2", "engine.max_rows=7"},
                                            {"engine.threads=3", "engine.max_rows=64"}};
  setting plain = with(base, "engine.threads=1", "engine.max_rows=512");
  rig *together = rig_open(model, plain.at);
  submit(together, 0, n);
  rig_run(together, 3);
  check_alone(together, model, plain.at, n);
  for (size_t v = 0; v < TN_ARRAY_LEN(variants); v++) {
    setting other = with(base, variants[v][0], variants[v][1]);
    rig *r = rig_open(model, other.at);
    submit(r, 0, n);
    rig_run(r, 0);
    for (uint32_t i = 0; i < 2 * n; i++)
      cr_assert(rig_same(together, i, r, i), "result %u differs with %s, %s", i, variants[v][0], variants[v][1]);
    rig_close(r);
  }
  rig_close(together);
}

void same_bits_equal(const char *model, const char *const *a, const char *const *b, uint32_t n)
{
  rig *x = rig_open(model, a), *y = rig_open(model, b);
  submit(x, 0, n);
  rig_run(x, 0);
  submit(y, 0, n);
  rig_run(y, 0);
  for (uint32_t i = 0; i < 2 * n; i++) cr_assert(rig_same(x, i, y, i), "result %u differs", i);
  rig_close(x);
  rig_close(y);
}
