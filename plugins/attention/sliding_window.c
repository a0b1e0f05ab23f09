/* sliding_window: every query sees the last W keys, itself included.
 *
 * Paper    Beltagy et al., Longformer, 2020, section 3.1; Jiang et al., Mistral 7B, 2023, section 2
 * Maths    visible(i, j) = 0 <= i - j < W, in text positions; one softmax over what is visible
 * Result   exact for that mask; equal to full attention while T <= W. A model's own narrower window stays in force
 * Cost     O(W) a decoded token; KV of W rows a layer, older pages are freed
 * Needs    attn.mask/1        Conflicts  -
 * Options  window  [tokens, 1..2^30, default 1024]
 * Tests    tests/policy/test_attention.c, tests/engine/test_determinism.c
 */
#include <tenon/plugin_api.h>

struct tn_inst {
  const tn_host *host;
  int64_t window;
};

static tn_status describe(tn_inst *self, const tn_plan *plan, uint32_t layer, uint32_t kv_head, tn_attn_spec *out,
                          tn_err *err)
{
  (void)plan, (void)layer, (void)kv_head, (void)err;
  out->kind = TN_AT_MASK;
  out->mask = (tn_mask){.lo = 0, .hi = self->window, .stride = 1, .residue = 0, .sinks = 0};
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
                             .id = "org.tenon.sliding_window",
                             .name = "sliding_window",
                             .version = "1.0.0",
                             .summary = "every query sees the last W keys (Beltagy et al. 2020)",
                             .needs = needs,
                             .params = params,
                             .counters = counters,
                             .create = create,
                             .destroy = destroy,
                             .vtable = &vtable};

TN_PLUGIN(sliding_window, "org.tenon.sliding_window", TN_SLOT_ATTENTION, "1.0.0", "Tenon", "Apache-2.0", desc);
