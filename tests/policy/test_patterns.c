/* Sparse patterns: dilated, global, random, bigbird. What they say, edge by edge, and that the engine then sees just that.
 * Bits: tests/engine/test_attention_bits.c. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <string.h>

#include "config/param.h"
#include "support/engine_rig.h"
#include "support/naive.h"
#include "support/plugin_rig.h"

enum { TILE = 64, MAX_TILES = 256 };

/* ---------------------------------------------------------------- tile lists */

typedef struct list {
  tn_tile_list l;
  int32_t tile[MAX_TILES];
  uint8_t kind[MAX_TILES];
  uint64_t bitmap[MAX_TILES * TILE];
} list;

static const list *tiles(const plugin_rig *p, uint32_t layer, uint32_t head, int64_t qtile)
{
  static list out;
  const tn_attention_v1 *v = p->vtable;
  out.l = (tn_tile_list){.struct_size = sizeof out.l,
                         .cap = (uint32_t)qtile + 1,
                         .tile = out.tile,
                         .kind = out.kind,
                         .bitmap = out.bitmap};
  cr_assert(v->tiles(p->inst, layer, head, qtile, qtile * TILE + 63, &out.l) == TN_OK);
  cr_assert(out.l.n >= 1 && out.l.n <= out.l.cap);
  for (uint32_t i = 1; i < out.l.n; i++) cr_assert(out.tile[i] > out.tile[i - 1], "tiles of %d ascend", (int)qtile);
  cr_assert(out.tile[0] >= 0 && out.tile[out.l.n - 1] == qtile, "the diagonal block is there, and nothing after it");
  return &out;
}

static bool has(const list *l, int64_t tile)
{
  for (uint32_t i = 0; i < l->l.n; i++)
    if (l->tile[i] == tile) return true;
  return false;
}

/* Fixed blocks first and last, min(r, what is left) others of the rest, all whole. */
static void check_counts(const char *name, int64_t g, int64_t w, int64_t r, const char *const *sets)
{
  plugin_rig *p = plugin_rig_open(TN_SLOT_ATTENTION, name, sets);
  for (uint32_t layer = 0; layer < 3; layer++)
    for (int64_t b = 0; b < 40; b++) {
      const list *l = tiles(p, layer, layer % 2, b);
      int64_t fixed = 0, left = 0;
      for (int64_t t = 0; t <= b; t++) {
        bool always = t < g || t > b - w;
        fixed += always, left += !always;
        if (always) cr_assert(has(l, t), "block %d of %d", (int)t, (int)b);
      }
      cr_assert_eq(l->l.n, fixed + (r < left ? r : left), "%s: %u blocks of %d", name, l->l.n, (int)b);
      for (uint32_t i = 0; i < l->l.n; i++) cr_assert_eq(l->kind[i], TN_TILE_FULL);
    }
  plugin_rig_close(p);
}

Test(policy_patterns, edges)
{
  check_counts("random", 0, 1, 3, NULL);
  check_counts("random", 0, 4, 5, (const char *[]){"window=4", "blocks=5", NULL});
  check_counts("random", 0, 1, 0, (const char *[]){"blocks=0", NULL});
  check_counts("bigbird", 1, 2, 3, NULL);
  check_counts("bigbird", 3, 1, 7, (const char *[]){"global=3", "window=1", "blocks=7", NULL});
  check_counts("bigbird", 0, 2, 0, (const char *[]){"global=0", "blocks=0", NULL});
}

/* Another layer, head, block or seed draws other blocks; the same ones draw the same, in whatever order they are asked. */
Test(policy_patterns, draws_are_a_function)
{
  static const char *const names[] = {"random", "bigbird"};
  for (size_t k = 0; k < 2; k++) {
    plugin_rig *a = plugin_rig_open(TN_SLOT_ATTENTION, names[k], NULL);
    plugin_rig *b = plugin_rig_open(TN_SLOT_ATTENTION, names[k], (const char *[]){"seed=2", NULL});
    list first = *tiles(a, 1, 0, 100);
    tiles(a, 0, 1, 7);
    const list *again = tiles(a, 1, 0, 100);
    cr_expect(again->l.n == first.l.n && memcmp(again->tile, first.tile, first.l.n * sizeof first.tile[0]) == 0);
    const size_t bytes = first.l.n * sizeof first.tile[0];
    cr_expect(memcmp(tiles(a, 2, 0, 100)->tile, first.tile, bytes) != 0, "%s: by layer", names[k]);
    cr_expect(memcmp(tiles(a, 1, 1, 100)->tile, first.tile, bytes) != 0, "%s: by head", names[k]);
    cr_expect(memcmp(tiles(b, 1, 0, 100)->tile, first.tile, bytes) != 0, "%s: by seed", names[k]);
    double sum = 0, sum2 = 0; /* where the first drawn block lies, as a share of those before the query's */
    for (int64_t q = 50; q < 90; q++) {
      double x = (double)tiles(a, 1, 0, q)->tile[k] / (double)q;
      sum += x, sum2 += x * x;
    }
    cr_expect(sum2 / 40 - sum * sum / 1600 > 0.01, "%s: by block: variance %g, want about 0.038", names[k],
              sum2 / 40 - sum * sum / 1600);
    plugin_rig_close(a);
    plugin_rig_close(b);
  }
}

/* Each of the n blocks that may be drawn is drawn equally often: chi-square over 6000 draws of 3 of 20, 19 degrees of
 * freedom, 1e-4 is at 50.8; draws without replacement vary less. */
static void check_uniform(const char *name, int64_t qtile, int64_t first)
{
  enum { N = 20, DRAWS = 6000, R = 3 };
  double count[N] = {0}, chi = 0, want = (double)DRAWS * R / N;
  plugin_rig *p = plugin_rig_open(TN_SLOT_ATTENTION, name, NULL);
  for (uint32_t layer = 0; layer < DRAWS / 4; layer++)
    for (uint32_t head = 0; head < 4; head++) {
      const list *l = tiles(p, layer, head, qtile);
      for (uint32_t i = 0; i < l->l.n; i++)
        if (l->tile[i] >= first && l->tile[i] < first + N) count[l->tile[i] - first]++;
    }
  for (int i = 0; i < N; i++) chi += (count[i] - want) * (count[i] - want) / want;
  cr_expect(chi < 50.8, "%s: chi-square %g", name, chi);
  cr_expect(chi > 2, "%s: chi-square %g, too even for chance", name, chi);
  plugin_rig_close(p);
}

Test(policy_patterns, draws_are_uniform)
{
  check_uniform("random", 20, 0);  /* blocks 0 .. 19 */
  check_uniform("bigbird", 22, 1); /* blocks 1 .. 20 */
}

/* ---------------------------------------------------------------- masks */

static tn_attn_spec describe(const plugin_rig *p, uint32_t head)
{
  const tn_attention_v1 *v = p->vtable;
  tn_attn_spec spec = {.struct_size = sizeof spec};
  cr_assert(v->describe(p->inst, NULL, 2, head, &spec, NULL) == TN_OK);
  return spec;
}

Test(policy_patterns, dilation_by_head)
{
  static const int64_t want[5] = {1, 3, 8, 1, 3};
  plugin_rig *p = plugin_rig_open(TN_SLOT_ATTENTION, "dilated", (const char *[]){"window=5", "dilation=1, 3, 8", NULL});
  for (uint32_t head = 0; head < 5; head++) {
    tn_attn_spec s = describe(p, head);
    cr_expect(s.kind == TN_AT_MASK && s.mask.lo == 0 && s.mask.hi == 5 * want[head] && s.mask.stride == want[head] &&
                  s.mask.residue == 0 && s.mask.sinks == 0,
              "head %u", head);
  }
  plugin_rig_close(p);
}

static void invalid(const char *name, const char *set, const char *says)
{
  plugin_rig *p = plugin_rig_open(TN_SLOT_ATTENTION, name, NULL);
  const tn_param *const *row = p->desc->params;
  tn_err err = tn_err_init();
  tn_value was;
  uint32_t i = 0;
  while (strncmp(row[i]->key, set, strlen(row[i]->key)) != 0) i++;
  was = p->values[i];
  cr_assert(plugin_rig_validate(p, NULL, &err) == TN_OK);
  cr_assert(tn_param_parse(row[i], strchr(set, '=') + 1, NULL, &p->values[i], &err) == TN_OK, "%s", err.msg);
  cr_expect(plugin_rig_validate(p, NULL, &err) == TN_E_ARG && strstr(err.msg, says), "%s", err.msg);
  tn_value_free(&p->values[i]);
  p->values[i] = was;
  plugin_rig_close(p);
}

Test(policy_patterns, lists_that_are_none)
{
  char many[400] = "positions=1";
  for (int i = 0; i < 64; i++) strcat(many, ",2");
  invalid("dilated", "dilation=1, 2.5", "dilation: number 2 is 2.5, want a whole number");
  invalid("dilated", "dilation=", "empty list");
  invalid("global", "positions=0.5", "positions: number 1 is 0.5, want a whole number");
  invalid("global", many, "positions has 65 numbers, at most 64");
}

/* ---------------------------------------------------------------- on the engine */

enum { TOKENS = 200 };

typedef struct pattern {                                 /* as the options say it */
  int64_t window, first, n_positions, positions[4], off; /* off: a fault of the oracle, in tokens */
  int64_t dilation[2];
  const plugin_rig *blocks; /* random, bigbird */
} pattern;

static bool sees(void *ctx, uint32_t layer, uint32_t head, int64_t i, int64_t j)
{
  const pattern *p = ctx;
  if (p->blocks) return has(tiles(p->blocks, layer, head, i / TILE), (j + p->off) / TILE);
  int64_t d = p->dilation[head % 2];
  if (d) return i - j < p->window * d + p->off && (i - j) % d == 0;
  for (int64_t k = 0; k < p->n_positions; k++)
    if (i == p->positions[k] + p->off || j == p->positions[k] + p->off) return true;
  return j < p->first || i - j < p->window + (p->n_positions ? 0 : p->off);
}

static double error_of(const rig *r, const int32_t *text, pattern *p)
{
  naive_hooks hooks = {.ctx = p, .sees = sees};
  naive *x = naive_open(r->s.model, &hooks, TOKENS);
  cr_assert(r->r[0].n_rows == TOKENS, "%s", r->r[0].msg);
  double worst = naive_worst(x, text, TOKENS, r->r[0].rows);
  naive_close(x);
  return worst;
}

/* A long text against the masked softmax in double; and the oracle that is off by one must not do. bound: cpu computes
 * in f32. */
static void check_engine(const char *model, const char *backend, double bound, const char *const *own, pattern p)
{
  char b[40], name[40];
  const char *sets[16] = {b,
                          name,
                          "engine.threads=1",
                          "engine.activations=f32",
                          "compose.kv=probe",
                          "quantizer.probe@kv.kv=f32",
                          "engine.allow_untrained=yes",
                          "engine.max_rows=61"};
  snprintf(b, sizeof b, "compose.backend=%s", backend);
  snprintf(name, sizeof name, "compose.attention=%s", own[0]);
  for (int n = 8, i = 1; own[i]; i++) sets[n++] = own[i];
  int32_t text[TOKENS];
  rig *r = rig_open(model, sets);
  rig_tokens(3, r->n_vocab, text, TOKENS);
  rig_score(r, text, TOKENS);
  rig_run(r, 1);
  double right = error_of(r, text, &p);
  p.off = 1;
  double wrong = error_of(r, text, &p);
  cr_expect(right < bound, "%s on %s: off by %g", own[0], backend, right);
  cr_expect(wrong > 50 * right, "%s on %s: off by one would do as well: %g, %g", own[0], backend, wrong, right);
  rig_close(r);
}

#define ON_ENGINE(name_, model_, backend_, pattern_, ...)                   \
  Test(policy_patterns, name_)                                              \
  {                                                                         \
    static const char *const own[] = {__VA_ARGS__, NULL};                   \
    check_engine(rig_tiny(model_), backend_, 1e-4, own, (pattern)pattern_); \
  }
#define P(...)  \
  {             \
    __VA_ARGS__ \
  }
ON_ENGINE(dilated_ref, "llama", "ref", P(.window = 6, .dilation = {3, 3}), "dilated", "attention.dilated.window=6",
          "attention.dilated.dilation=3")
ON_ENGINE(dilated_heads_ref, "llama", "ref", P(.window = 9, .dilation = {1, 4}), "dilated",
          "attention.dilated.window=9", "attention.dilated.dilation=1, 4")
ON_ENGINE(dilated_heads_cpu, "llama", "cpu", P(.window = 9, .dilation = {1, 4}), "dilated",
          "attention.dilated.window=9", "attention.dilated.dilation=1, 4")
ON_ENGINE(dilated_gemma3, "gemma3", "cpu", P(.window = 3, .dilation = {2, 2}), "dilated", "attention.dilated.window=3")
ON_ENGINE(global_ref, "llama", "ref", P(.window = 20, .first = 5), "global", "attention.global.window=20",
          "attention.global.first=5")
ON_ENGINE(global_cpu, "llama", "cpu", P(.window = 70, .first = 66), "global", "attention.global.window=70",
          "attention.global.first=66")
ON_ENGINE(global_positions, "llama", "ref", P(.window = 10, .first = 2, .n_positions = 3, .positions = {40, 70, 150}),
          "global", "attention.global.window=10", "attention.global.first=2", "attention.global.positions=70, 40, 150")
ON_ENGINE(global_positions_gemma3, "gemma3", "ref", P(.window = 10, .n_positions = 1, .positions = {30}), "global",
          "attention.global.window=10", "attention.global.first=0", "attention.global.positions=30")

static void check_blocks(const char *name, const char *model)
{
  static const char *const options[] = {"blocks=1", "window=1", "seed=5", NULL};
  char set[3][64];
  const char *const own[] = {name, set[0], set[1], set[2], NULL};
  for (int i = 0; i < 3; i++) snprintf(set[i], sizeof set[i], "attention.%s.%s", name, options[i]);
  plugin_rig *p = plugin_rig_open(TN_SLOT_ATTENTION, name, options);
  check_engine(rig_tiny(model), "ref", 1e-4, own, (pattern){.blocks = p});
  plugin_rig_close(p);
}
Test(policy_patterns, random_on_the_engine) { check_blocks("random", "llama"); }
Test(policy_patterns, bigbird_on_the_engine) { check_blocks("bigbird", "llama"); }
Test(policy_patterns, bigbird_on_the_engine_gemma3) { check_blocks("bigbird", "qwen3"); }

/* Tiles that one option alone asks for: no token of the plugin says so, the engine does, before anything runs. */
Test(policy_patterns, positions_need_a_backend_with_tiles)
{
  static const char *const sets[] = {"compose.backend=cpu", "compose.attention=global", "attention.global.positions=4",
                                     NULL};
  tn_err err = tn_err_init();
  rig *r;
  cr_assert(rig_try(rig_tiny("llama"), sets, &r, &err) == TN_E_UNSUPPORTED);
  static const char says[] =
      "attention/global: layer 0: with these options it needs attn.tiles/1, which backend cpu does "
      "not offer";
  cr_assert(strstr(err.msg, says) != NULL, "%s", err.msg);
}
