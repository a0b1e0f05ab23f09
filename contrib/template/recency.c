/* recency: keep the first `pinned` and the last `window` tokens of every sequence; keys keep the positions they had.
 *
 * Paper    Beltagy et al., Longformer, 2020, section 3.1 (the window); the pinned tokens are its global ones, one way
 * Maths    retained(i) = { j : j < pinned or i - j < window }
 * Result   exact for that mask; depends on positions only (prefixes may be shared, batching changes no bit)
 * Cost     attention O(pinned + window) a token; KV of pinned + window rows a layer, whatever the text's length
 * Needs    attn.mask/1 kv.token_drop/1        Conflicts  attn.names_evicted/1
 * Options  pinned [tokens, 0..2^16, default 16]   window [tokens, 1..2^20, default 496]
 * Tests    check.sh; in Tenon's tree tests/abi/test_out_of_tree.c
 */
#include <tenon/plugin_api.h>

struct tn_inst {
  const tn_host *host;
  int64_t pinned, window;
};

static tn_status describe(tn_inst *self, const tn_plan *plan, tn_evict_spec *out, tn_err *err)
{
  (void)plan, (void)err;
  out->kind = TN_EV_POSITION;
  out->gran = TN_GRAN_ALL;
  out->mask.lo = 0;
  out->mask.hi = self->window;
  out->mask.stride = 1;
  out->mask.residue = 0;
  out->mask.sinks = self->pinned;
  self->host->count(self->host->ctx, 0, 1);
  return TN_OK;
}

static tn_status create(const tn_host *host, const tn_value *values, tn_inst **out, tn_err *err)
{
  (void)err;
  *out = host->alloc(host->ctx, sizeof **out, 8);
  if (!*out) return TN_E_NOMEM;
  (*out)->host = host;
  (*out)->pinned = values[0].v.i;
  (*out)->window = values[1].v.i;
  return TN_OK;
}

static void destroy(tn_inst *self) { self->host->free_(self->host->ctx, self); }

static const tn_param p_pinned = {.struct_size = sizeof p_pinned,
                                  .type = TN_T_I64,
                                  .flags = TN_P_OUTPUT,
                                  .key = "pinned",
                                  .help = "first tokens that always stay",
                                  .unit = "tokens",
                                  .def = "16",
                                  .imin = 0,
                                  .imax = 1 << 16};
static const tn_param p_window = {.struct_size = sizeof p_window,
                                  .type = TN_T_I64,
                                  .flags = TN_P_OUTPUT,
                                  .key = "window",
                                  .help = "last tokens that stay",
                                  .unit = "tokens",
                                  .def = "496",
                                  .imin = 1,
                                  .imax = 1 << 20};
static const tn_param *const params[] = {&p_pinned, &p_window, NULL};
static const tn_eviction_v1 vtable = {.struct_size = sizeof vtable, .describe = describe};

static const char *const needs[] = {"attn.mask/1", "kv.token_drop/1", NULL};
static const char *const conflicts[] = {"attn.names_evicted/1", NULL};
static const char *const counters[] = {"described", NULL};

static const tn_desc desc = {.struct_size = sizeof desc,
                             .slot = TN_SLOT_EVICTION,
                             .slot_version = TN_SLOT_VERSION,
                             .flags = TN_F_DETERMINISTIC,
                             .id = "org.example.recency",
                             .name = "recency",
                             .version = "1.0.0",
                             .summary = "keep the first and the last tokens, at their own positions",
                             .needs = needs,
                             .conflicts = conflicts,
                             .params = params,
                             .counters = counters,
                             .create = create,
                             .destroy = destroy,
                             .vtable = &vtable};

TN_PLUGIN(recency, "org.example.recency", TN_SLOT_EVICTION, "1.0.0", "Example", "Apache-2.0", desc);
