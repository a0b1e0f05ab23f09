/* linear: no softmax but a product of features, so that a layer keeps one state in place of keys and values.
 *
 * Paper    Katharopoulos et al., Transformers are RNNs, ICML 2020, section 3
 * Maths    phi(x) = elu(x) + 1;  S_t = S_{t-1} + phi(k_t) v_t^T,  z_t = z_{t-1} + phi(k_t);
 *          o_t = phi(q_t)^T S_t / (phi(q_t)^T z_t + 1e-6);  keys and queries are not rotated
 * Result   exact for that kernel, which is no approximation of softmax: a model has to be trained or tuned for it
 * Cost     O(dh^2) a head and token; dh (dh + 1) numbers a KV head and layer, whatever the text's length
 * Needs    attn.state/1        Conflicts  what acts on cached entries, where no layer keeps any (kv.entries/1)
 * Options  -
 * Tests    tests/policy/test_recurrent.c, tests/engine/test_attention_bits.c
 */
#include <tenon/plugin_api.h>

struct tn_inst {
  const tn_host *host;
};

static const tn_state_spec state = {.struct_size = sizeof state, .phi = TN_PHI_ELU1, .fold = 64, .eps = 1e-6};

static tn_status describe(tn_inst *self, const tn_plan *plan, uint32_t layer, uint32_t kv_head, tn_attn_spec *out,
                          tn_err *err)
{
  (void)plan, (void)layer, (void)kv_head, (void)err;
  out->kind = TN_AT_STATE;
  out->state = &state;
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

static const char *const provides[] = {"attn.untrained/1", NULL};
static const char *const needs[] = {"attn.state/1", NULL};
static const char *const counters[] = {"heads", NULL};

static const tn_desc desc = {.struct_size = sizeof desc,
                             .slot = TN_SLOT_ATTENTION,
                             .slot_version = TN_SLOT_VERSION,
                             .flags = TN_F_DETERMINISTIC,
                             .id = "org.tenon.linear",
                             .name = "linear",
                             .version = "1.0.0",
                             .summary = "a recurrent state in place of softmax (Katharopoulos et al. 2020)",
                             .provides = provides,
                             .needs = needs,
                             .counters = counters,
                             .create = create,
                             .destroy = destroy,
                             .vtable = &vtable};

TN_PLUGIN(linear, "org.tenon.linear", TN_SLOT_ATTENTION, "1.0.0", "Tenon", "Apache-2.0", desc);
