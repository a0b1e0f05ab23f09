/* global: some tokens are seen by all and see all; the others see a window besides.
 *
 * Paper    Beltagy et al., Longformer, 2020, section 3.1, "global attention"; Ainslie et al., ETC, 2020
 * Maths    visible(i, j) = 0 <= i - j < W, or j < G, or i or j is one of `positions`, in text positions and j <= i; one
 *          softmax over what is visible
 * Result   exact for that mask; equal to full attention while T <= W. A model's own narrower window stays in force
 * Cost     O(W + G) a decoded token, and KV of W + G rows a layer, older pages are freed; with `positions` tile lists: KV
 *          of all rows, and a global query reads all of them
 * Needs    attn.mask/1, and with `positions` attn.tiles/1        Conflicts  kv.token_drop/1: the pattern names its tokens
 * Options  first [G, tokens, 0..2^20, default 64]   window [W, tokens, 1..2^30, default 1024]
 *          positions [list of text positions, at most 64, default none]
 * Tests    tests/policy/test_patterns.c, tests/engine/test_attention_bits.c
 */
#include <stdbool.h>
#include <stdio.h>

#include <tenon/plugin_api.h>

enum { P_FIRST, P_WINDOW, P_POSITIONS };
enum { TILE = 64, MAX_POSITIONS = 64 };

struct tn_inst {
  const tn_host *host;
  int64_t first, window;
  uint32_t n, reserved0;
  int64_t at[MAX_POSITIONS];
};

static tn_status describe(tn_inst *self, const tn_plan *plan, uint32_t layer, uint32_t kv_head, tn_attn_spec *out,
                          tn_err *err)
{
  (void)plan, (void)layer, (void)kv_head, (void)err;
  out->kind = self->n ? TN_AT_TILES : TN_AT_MASK;
  out->mask = (tn_mask){.lo = 0, .hi = self->window, .stride = 1, .residue = 0, .sinks = self->first};
  self->host->count(self->host->ctx, 0, 1);
  return TN_OK;
}

/* Bit b: position 64 tile + b is one of the list. */
static uint64_t listed(const tn_inst *self, int64_t tile)
{
  uint64_t bits = 0;
  for (uint32_t i = 0; i < self->n; i++)
    if (self->at[i] / TILE == tile) bits |= 1ull << self->at[i] % TILE;
  return bits;
}

/* The keys of a tile that query i sees by the window and the first tokens. */
static uint64_t by_mask(const tn_inst *self, int64_t i, int64_t tile)
{
  uint64_t bits = 0;
  for (int64_t b = 0; b < TILE; b++) {
    int64_t j = tile * TILE + b;
    if (j < self->first || i - j < self->window) bits |= 1ull << b;
  }
  return bits;
}

static tn_status tiles(tn_inst *self, uint32_t layer, uint32_t kv_head, int64_t qtile, int64_t last, tn_tile_list *out)
{
  (void)layer, (void)kv_head, (void)last;
  uint64_t rows = listed(self, qtile);
  out->n = 0;
  for (int64_t t = 0; t <= qtile; t++) {
    uint64_t keys = listed(self, t);
    bool masked = t * TILE < self->first || (qtile - t - 1) * TILE + 1 < self->window;
    if (!masked && !keys && !rows) continue;
    out->tile[out->n] = (int32_t)t;
    out->kind[out->n] = rows || keys ? TN_TILE_BITMAP : TN_TILE_MASK;
    for (int64_t q = 0; q < TILE && (rows || keys); q++)
      out->bitmap[(int64_t)out->n * TILE + q] = rows >> q & 1 ? ~0ull : keys | by_mask(self, qtile * TILE + q, t);
    out->n++;
  }
  return TN_OK;
}

static tn_status validate(const tn_plan *plan, const tn_value *values, tn_err *err)
{
  (void)plan;
  const tn_value *p = &values[P_POSITIONS];
  err->code = TN_E_ARG;
  if (p->len > MAX_POSITIONS) {
    snprintf(err->msg, sizeof err->msg, "positions has %u numbers, at most %d are taken", p->len, (int)MAX_POSITIONS);
    return TN_E_ARG;
  }
  for (uint32_t i = 0; i < p->len; i++) {
    if (p->v.list[i] == (double)(int64_t)p->v.list[i]) continue;
    snprintf(err->msg, sizeof err->msg, "positions: number %u is %g, want a whole number", i + 1, p->v.list[i]);
    return TN_E_ARG;
  }
  err->code = TN_OK;
  return TN_OK;
}

static tn_status create(const tn_host *host, const tn_value *values, tn_inst **out, tn_err *err)
{
  *out = NULL;
  tn_status st = validate(NULL, values, err);
  if (st != TN_OK) return st;
  tn_inst *self = *out = host->alloc(host->ctx, sizeof *self, 8);
  if (!self) return TN_E_NOMEM;
  self->host = host;
  self->first = values[P_FIRST].v.i;
  self->window = values[P_WINDOW].v.i;
  self->n = values[P_POSITIONS].len;
  for (uint32_t i = 0; i < self->n; i++) self->at[i] = (int64_t)values[P_POSITIONS].v.list[i];
  return TN_OK;
}

static void destroy(tn_inst *self) { self->host->free_(self->host->ctx, self); }

static const tn_param p_first = {.struct_size = sizeof p_first,
                                 .type = TN_T_I64,
                                 .flags = TN_P_OUTPUT,
                                 .key = "first",
                                 .help = "first tokens of the text that all later ones see",
                                 .unit = "tokens",
                                 .def = "64",
                                 .imin = 0,
                                 .imax = 1 << 20};
static const tn_param p_window = {.struct_size = sizeof p_window,
                                  .type = TN_T_I64,
                                  .flags = TN_P_OUTPUT,
                                  .key = "window",
                                  .help = "last keys that a query sees besides, itself included",
                                  .unit = "tokens",
                                  .def = "1024",
                                  .imin = 1,
                                  .imax = 1 << 30};
static const tn_param p_positions = {.struct_size = sizeof p_positions,
                                     .type = TN_T_F64_LIST,
                                     .flags = TN_P_OUTPUT,
                                     .key = "positions",
                                     .help = "text positions whose tokens see all earlier ones and are seen by all "
                                             "later ones",
                                     .unit = "tokens",
                                     .def = "",
                                     .fmin = 0,
                                     .fmax = 1e9};
static const tn_param *const params[] = {
    [P_FIRST] = &p_first, [P_WINDOW] = &p_window, [P_POSITIONS] = &p_positions, NULL};
static const tn_attention_v1 vtable = {.struct_size = sizeof vtable, .describe = describe, .tiles = tiles};

static const char *const provides[] = {"attn.names_evicted/1", NULL};
static const char *const needs[] = {"attn.mask/1", NULL};
static const char *const conflicts[] = {"kv.token_drop/1", NULL};
static const char *const counters[] = {"heads", NULL};

static const tn_desc desc = {.struct_size = sizeof desc,
                             .slot = TN_SLOT_ATTENTION,
                             .slot_version = TN_SLOT_VERSION,
                             .flags = TN_F_DETERMINISTIC,
                             .id = "org.tenon.global",
                             .name = "global",
                             .version = "1.0.0",
                             .summary = "a window, and tokens that all see (Longformer, Beltagy et al. 2020)",
                             .provides = provides,
                             .needs = needs,
                             .conflicts = conflicts,
                             .params = params,
                             .counters = counters,
                             .validate = validate,
                             .create = create,
                             .destroy = destroy,
                             .vtable = &vtable};

TN_PLUGIN(global, "org.tenon.global", TN_SLOT_ATTENTION, "1.0.0", "Tenon", "Apache-2.0", desc);
