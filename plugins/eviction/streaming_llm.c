/* streaming_llm: keep the first S and the last W tokens of every sequence.
 *
 * Paper    Xiao et al., Efficient Streaming Language Models with Attention Sinks, ICLR 2024, section 3.2
 * Maths    retained(i) = { j : j < S or i - j < W };  a key's rope position is its rank in the cache, 0 .. S+W-1, so
 *          sinks are attended from position min(i, S+W-1) and all other distances are text distances
 * Result   exact for that mask; depends on positions only (prefixes may be shared, batching changes no bit)
 * Cost     attention O(S+W) a token; KV of S+W rows a layer, whatever the text's length
 * Needs    attn.mask/1 kv.token_drop/1 rope.renumber/1        Conflicts  attn.names_evicted/1
 * Options  sinks [tokens, 0..64, default 4]   window [tokens, 1..2^20, default 508]
 * Tests    tests/policy/test_streaming_llm.c: masked reference; bitwise equal to full while T <= S+W
 */
#include <tenon/plugin_api.h>

struct tn_inst {
  const tn_host *host;
  int64_t sinks, window;
};

static tn_status describe(tn_inst *self, const tn_plan *plan, tn_evict_spec *out, tn_err *err)
{
  (void)plan, (void)err;
  out->kind = TN_EV_POSITION;
  out->gran = TN_GRAN_ALL;
  out->mask = (tn_mask){.lo = 0, .hi = self->window, .stride = 1, .residue = 0, .sinks = self->sinks};
  out->renumber = self->sinks + self->window;
  self->host->count(self->host->ctx, 0, 1);
  return TN_OK;
}

static tn_status create(const tn_host *host, const tn_value *values, tn_inst **out, tn_err *err)
{
  (void)err;
  *out = host->alloc(host->ctx, sizeof **out, 8);
  if (!*out) return TN_E_NOMEM;
  (*out)->host = host;
  (*out)->sinks = values[0].v.i;
  (*out)->window = values[1].v.i;
  return TN_OK;
}

static void destroy(tn_inst *self) { self->host->free_(self->host->ctx, self); }

static const tn_param p_sinks = {.struct_size = sizeof p_sinks,
                                 .type = TN_T_I64,
                                 .flags = TN_P_OUTPUT,
                                 .key = "sinks",
                                 .help = "first tokens that always stay",
                                 .unit = "tokens",
                                 .def = "4",
                                 .imin = 0,
                                 .imax = 64};
static const tn_param p_window = {.struct_size = sizeof p_window,
                                  .type = TN_T_I64,
                                  .flags = TN_P_OUTPUT,
                                  .key = "window",
                                  .help = "last tokens that stay",
                                  .unit = "tokens",
                                  .def = "508",
                                  .imin = 1,
                                  .imax = 1 << 20};
static const tn_param *const params[] = {&p_sinks, &p_window, NULL};
static const tn_eviction_v1 vtable = {.struct_size = sizeof vtable, .describe = describe};

static const char *const needs[] = {"attn.mask/1", "kv.token_drop/1", "rope.renumber/1", NULL};
static const char *const conflicts[] = {"attn.names_evicted/1", NULL};
static const char *const counters[] = {"described", NULL};

static const tn_desc desc = {.struct_size = sizeof desc,
                             .slot = TN_SLOT_EVICTION,
                             .slot_version = TN_SLOT_VERSION,
                             .flags = TN_F_DETERMINISTIC,
                             .id = "org.tenon.streaming_llm",
                             .name = "streaming_llm",
                             .version = "1.0.0",
                             .summary = "keep the first S and the last W tokens (Xiao et al. 2024)",
                             .needs = needs,
                             .conflicts = conflicts,
                             .params = params,
                             .counters = counters,
                             .create = create,
                             .destroy = destroy,
                             .vtable = &vtable};

TN_PLUGIN(streaming_llm, "org.tenon.streaming_llm", TN_SLOT_EVICTION, "1.0.0", "Tenon", "Apache-2.0", desc);
