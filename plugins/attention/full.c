/* full: every query sees every earlier key.
 *
 * Paper    Vaswani et al., Attention Is All You Need, NeurIPS 2017, section 3.2
 * Maths    visible(i, j) = j <= i;  o_i = sum_j softmax_j(q_i k_j / sqrt(dh)) v_j
 * Result   exact
 * Cost     O(T) a decoded token; KV of T rows a layer
 * Needs    attn.mask/1        Conflicts  -
 * Options  -
 * Tests    tests/policy/test_attention.c, tests/engine/test_determinism.c
 */
#include <tenon/plugin_api.h>

struct tn_inst {
  const tn_host *host;
};

static tn_status describe(tn_inst *self, const tn_plan *plan, uint32_t layer, uint32_t kv_head, tn_attn_spec *out,
                          tn_err *err)
{
  (void)plan, (void)layer, (void)kv_head, (void)err;
  out->kind = TN_AT_MASK;
  out->mask = (tn_mask)TN_MASK_ALL;
  self->host->count(self->host->ctx, 0, 1);
  return TN_OK;
}

static tn_status create(const tn_host *host, const tn_value *values, tn_inst **out, tn_err *err)
{
  (void)values, (void)err;
  *out = host->alloc(host->ctx, sizeof **out, 8);
  if (!*out) return TN_E_NOMEM;
  (*out)->host = host;
  return TN_OK;
}

static void destroy(tn_inst *self) { self->host->free_(self->host->ctx, self); }

static const tn_attention_v1 vtable = {.struct_size = sizeof vtable, .describe = describe};

static const char *const needs[] = {"attn.mask/1", NULL};
static const char *const counters[] = {"heads", NULL};

static const tn_desc desc = {.struct_size = sizeof desc,
                             .slot = TN_SLOT_ATTENTION,
                             .slot_version = TN_SLOT_VERSION,
                             .flags = TN_F_DETERMINISTIC | TN_F_EXACT,
                             .id = "org.tenon.full",
                             .name = "full",
                             .version = "1.0.0",
                             .summary = "every query sees every earlier key (Vaswani et al. 2017)",
                             .needs = needs,
                             .counters = counters,
                             .create = create,
                             .destroy = destroy,
                             .vtable = &vtable};

TN_PLUGIN(full, "org.tenon.full", TN_SLOT_ATTENTION, "1.0.0", "Tenon", "Apache-2.0", desc);
