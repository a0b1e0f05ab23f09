/* my_plugin: every query sees the last N keys, itself included.
 *
 * Paper    -
 * Maths    visible(i, j) = 0 <= i - j < N, in text positions
 * Result   exact for that mask; equal to full attention while T <= N
 * Cost     O(N) a decoded token
 * Needs    attn.mask/1        Conflicts  -
 * Options  window  [tokens, 1..2^30, default 1024]
 */
#include <tenon/plugin_api.h>

struct tn_inst {
  const tn_host *host;
  int64_t window;
};

/* Asked once for each layer and KV head. Irregular patterns set kind TN_AT_TILES and offer tiles() in the vtable. */
static tn_status describe(tn_inst *self, const tn_plan *plan, uint32_t layer, uint32_t kv_head, tn_attn_spec *out,
                          tn_err *err)
{
  (void)plan, (void)layer, (void)kv_head, (void)err;
  out->kind = TN_AT_MASK;
  out->mask.lo = 0;
  out->mask.hi = self->window;
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
  (*out)->window = values[0].v.i;
  return TN_OK;
}

static void destroy(tn_inst *self) { self->host->free_(self->host->ctx, self); }

static const tn_param p_window = {.struct_size = sizeof p_window,
                                  .type = TN_T_I64,
                                  .flags = TN_P_OUTPUT,
                                  .key = "window",
                                  .help = "keys that a query sees, itself included",
                                  .unit = "tokens",
                                  .def = "1024",
                                  .imin = 1,
                                  .imax = 1 << 30};
static const tn_param *const params[] = {&p_window, NULL};
static const tn_attention_v1 vtable = {.struct_size = sizeof vtable, .describe = describe};

static const char *const needs[] = {"attn.mask/1", NULL};
static const char *const counters[] = {"heads", NULL};

static const tn_desc desc = {.struct_size = sizeof desc,
                             .slot = TN_SLOT_ATTENTION,
                             .slot_version = TN_SLOT_VERSION,
                             .flags = TN_F_DETERMINISTIC,
                             .id = "org.example.my_plugin",
                             .name = "my_plugin",
                             .version = "0.1.0",
                             .summary = "every query sees the last N keys",
                             .needs = needs,
                             .params = params,
                             .counters = counters,
                             .create = create,
                             .destroy = destroy,
                             .vtable = &vtable};

TN_PLUGIN(my_plugin, "org.example.my_plugin", TN_SLOT_ATTENTION, "0.1.0", "Example", "Apache-2.0", desc);
