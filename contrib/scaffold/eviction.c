/* my_plugin: keep the last N tokens of every sequence.
 *
 * Paper    -
 * Maths    retained(i) = { j : i - j < N }
 * Result   exact for that mask; depends on positions only
 * Cost     attention O(N) a token; KV of N rows a layer
 * Needs    attn.mask/1 kv.token_drop/1        Conflicts  attn.names_evicted/1
 * Options  keep  [tokens, 1..2^20, default 512]
 */
#include <tenon/plugin_api.h>

struct tn_inst {
  const tn_host *host;
  int64_t keep;
};

/* A policy by scores sets kind TN_EV_SCORE, the signals it wants, and offers when() and score() in the vtable. */
static tn_status describe(tn_inst *self, const tn_plan *plan, tn_evict_spec *out, tn_err *err)
{
  (void)plan, (void)err;
  out->kind = TN_EV_POSITION;
  out->gran = TN_GRAN_ALL;
  out->mask.lo = 0;
  out->mask.hi = self->keep;
  out->mask.stride = 1;
  out->mask.residue = 0;
  out->mask.sinks = 0;
  self->host->count(self->host->ctx, 0, 1);
  return TN_OK;
}

static tn_status create(const tn_host *host, const tn_value *values, tn_inst **out, tn_err *err)
{
  (void)err;
  *out = host->alloc(host->ctx, sizeof **out, 8);
  if (!*out) return TN_E_NOMEM;
  (*out)->host = host;
  (*out)->keep = values[0].v.i;
  return TN_OK;
}

static void destroy(tn_inst *self) { self->host->free_(self->host->ctx, self); }

static const tn_param p_keep = {.struct_size = sizeof p_keep,
                                .type = TN_T_I64,
                                .flags = TN_P_OUTPUT,
                                .key = "keep",
                                .help = "last tokens that stay",
                                .unit = "tokens",
                                .def = "512",
                                .imin = 1,
                                .imax = 1 << 20};
static const tn_param *const params[] = {&p_keep, NULL};
static const tn_eviction_v1 vtable = {.struct_size = sizeof vtable, .describe = describe};

static const char *const needs[] = {"attn.mask/1", "kv.token_drop/1", NULL};
static const char *const conflicts[] = {"attn.names_evicted/1", NULL};
static const char *const counters[] = {"described", NULL};

static const tn_desc desc = {.struct_size = sizeof desc,
                             .slot = TN_SLOT_EVICTION,
                             .slot_version = TN_SLOT_VERSION,
                             .flags = TN_F_DETERMINISTIC,
                             .id = "org.example.my_plugin",
                             .name = "my_plugin",
                             .version = "0.1.0",
                             .summary = "keep the last N tokens",
                             .needs = needs,
                             .conflicts = conflicts,
                             .params = params,
                             .counters = counters,
                             .create = create,
                             .destroy = destroy,
                             .vtable = &vtable};

TN_PLUGIN(my_plugin, "org.example.my_plugin", TN_SLOT_EVICTION, "0.1.0", "Example", "Apache-2.0", desc);
