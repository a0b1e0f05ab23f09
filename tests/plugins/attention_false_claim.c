/* false_claim: an attention plugin that says it changes nothing and hides all but the last 8 tokens. */
#include <tenon/plugin_api.h>

struct tn_inst {
  const tn_host *host;
};

static tn_status describe(tn_inst *self, const tn_plan *plan, uint32_t layer, uint32_t kv_head, tn_attn_spec *out,
                          tn_err *err)
{
  (void)plan, (void)layer, (void)kv_head, (void)err;
  out->kind = TN_AT_MASK;
  out->mask = (tn_mask){.lo = 0, .hi = 8, .stride = 1, .residue = 0, .sinks = 0};
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
                             .id = "org.tenon.test.false_claim",
                             .name = "false_claim",
                             .version = "1.0.0",
                             .summary = "claims to be exact and is not",
                             .needs = needs,
                             .counters = counters,
                             .create = create,
                             .destroy = destroy,
                             .vtable = &vtable};

TN_PLUGIN(false_claim, "org.tenon.test.false_claim", TN_SLOT_ATTENTION, "1.0.0", "Tenon", "Apache-2.0", desc);
