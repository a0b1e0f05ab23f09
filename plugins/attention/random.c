/* random: every query block of 64 sees itself, the blocks just before it, and some earlier ones drawn at random.
 *
 * Paper    Zaheer et al., Big Bird, NeurIPS 2020, section 2, "random attention", causal and by blocks
 * Maths    visible(i, j) = j <= i and block(j) in { b-L+1 .. b } or R(seed, layer, KV head, b), b = block(i); R has
 *          min(r, b-L+1) different blocks of 0 .. b-L, uniform: a pure function, so prefill and decoding agree
 * Result   exact for that mask; equal to full attention while a text has at most r + L blocks
 * Cost     O((r + L) 64) a decoded token; KV of all rows, since any of them may be drawn later
 * Needs    attn.tiles/1        Conflicts  kv.token_drop/1: the pattern names tokens that would be gone
 * Options  blocks [r, 0..64, default 3]   window [L, blocks, 1..64, default 1]   seed [0..2^31-1, default 1]
 * Tests    tests/policy/test_patterns.c, tests/engine/test_attention_bits.c
 */
#include <stdio.h>

#include <tenon/plugin_api.h>

enum { P_BLOCKS, P_WINDOW, P_SEED };
enum { MAX_BLOCKS = 64 };

struct tn_inst {
  const tn_host *host;
  const tn_svc_rng *rng;
  int64_t blocks, window;
  uint64_t seed;
};

static tn_status describe(tn_inst *self, const tn_plan *plan, uint32_t layer, uint32_t kv_head, tn_attn_spec *out,
                          tn_err *err)
{
  (void)plan, (void)layer, (void)kv_head, (void)err;
  out->kind = TN_AT_TILES;
  self->host->count(self->host->ctx, 0, 1);
  return TN_OK;
}

/* r different numbers below n, ascending, into out [r]; r <= n. Floyd's sampling: every set is equally likely. */
static void draw(const tn_inst *self, uint32_t layer, uint32_t kv_head, int64_t block, int64_t n, int64_t r,
                 int32_t *out)
{
  for (int64_t k = 0, j = n - r; k < r; k++, j++) {
    double u = self->rng->uniform(self->host->ctx, self->seed, (uint64_t)block, layer << 12 | kv_head, (uint32_t)k);
    int32_t x = (int32_t)(u * (double)(j + 1));
    for (int64_t i = 0; i < k; i++)
      if (out[i] == x) x = (int32_t)j;
    int64_t i = k;
    for (; i > 0 && out[i - 1] > x; i--) out[i] = out[i - 1];
    out[i] = x;
  }
}

static tn_status tiles(tn_inst *self, uint32_t layer, uint32_t kv_head, int64_t qtile, int64_t last, tn_tile_list *out)
{
  (void)last;
  int64_t near = qtile - self->window + 1 > 0 ? qtile - self->window + 1 : 0; /* blocks 0 .. near - 1 may be drawn */
  int64_t r = self->blocks < near ? self->blocks : near;
  draw(self, layer, kv_head, qtile, near, r, out->tile);
  out->n = (uint32_t)r;
  for (int64_t t = near; t <= qtile; t++) out->tile[out->n++] = (int32_t)t;
  for (uint32_t i = 0; i < out->n; i++) out->kind[i] = TN_TILE_FULL;
  return TN_OK;
}

static tn_status create(const tn_host *host, const tn_value *values, tn_inst **out, tn_err *err)
{
  *out = NULL;
  const tn_svc_rng *rng = host->service(host->ctx, "tenon.rng/1");
  if (!rng) {
    snprintf(err->msg, sizeof err->msg, "random draws its blocks by the host's tenon.rng/1, which is not offered");
    return err->code = TN_E_UNSUPPORTED;
  }
  *out = host->alloc(host->ctx, sizeof **out, 8);
  if (!*out) return TN_E_NOMEM;
  **out = (struct tn_inst){.host = host,
                           .rng = rng,
                           .blocks = values[P_BLOCKS].v.i,
                           .window = values[P_WINDOW].v.i,
                           .seed = (uint64_t)values[P_SEED].v.i};
  return TN_OK;
}

static void destroy(tn_inst *self) { self->host->free_(self->host->ctx, self); }

static const tn_param p_blocks = {.struct_size = sizeof p_blocks,
                                  .type = TN_T_I64,
                                  .flags = TN_P_OUTPUT,
                                  .key = "blocks",
                                  .help = "earlier blocks of 64 tokens that are drawn for each block of queries",
                                  .def = "3",
                                  .imin = 0,
                                  .imax = MAX_BLOCKS};
static const tn_param p_window = {.struct_size = sizeof p_window,
                                  .type = TN_T_I64,
                                  .flags = TN_P_OUTPUT,
                                  .key = "window",
                                  .help = "last blocks of 64 tokens that are always seen, the query's own included",
                                  .def = "1",
                                  .imin = 1,
                                  .imax = MAX_BLOCKS};
static const tn_param p_seed = {.struct_size = sizeof p_seed,
                                .type = TN_T_I64,
                                .flags = TN_P_OUTPUT,
                                .key = "seed",
                                .help = "another seed draws other blocks",
                                .def = "1",
                                .imin = 0,
                                .imax = INT32_MAX};
static const tn_param *const params[] = {[P_BLOCKS] = &p_blocks, [P_WINDOW] = &p_window, [P_SEED] = &p_seed, NULL};
static const tn_attention_v1 vtable = {.struct_size = sizeof vtable, .describe = describe, .tiles = tiles};

static const char *const provides[] = {"attn.untrained/1", "attn.names_evicted/1", NULL};
static const char *const needs[] = {"attn.tiles/1", NULL};
static const char *const conflicts[] = {"kv.token_drop/1", NULL};
static const char *const counters[] = {"heads", NULL};

static const tn_desc desc = {.struct_size = sizeof desc,
                             .slot = TN_SLOT_ATTENTION,
                             .slot_version = TN_SLOT_VERSION,
                             .flags = TN_F_DETERMINISTIC,
                             .id = "org.tenon.random",
                             .name = "random",
                             .version = "1.0.0",
                             .summary = "every block sees itself and some drawn at random (Zaheer et al. 2020)",
                             .provides = provides,
                             .needs = needs,
                             .conflicts = conflicts,
                             .params = params,
                             .counters = counters,
                             .create = create,
                             .destroy = destroy,
                             .vtable = &vtable};

TN_PLUGIN(random, "org.tenon.random", TN_SLOT_ATTENTION, "1.0.0", "Tenon", "Apache-2.0", desc);
