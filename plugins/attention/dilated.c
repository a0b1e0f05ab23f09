/* dilated: every query sees `window` keys that lie `dilation` tokens apart, itself included.
 *
 * Paper    Beltagy et al., Longformer, 2020, section 3.1, "dilated sliding window"
 * Maths    visible(i, j) = 0 <= i - j < W D and (i - j) mod D = 0, in text positions; one softmax over what is visible;
 *          D may differ from KV head to KV head; D = 1 is a sliding window
 * Result   exact for that mask; equal to a window of W at D = 1. A model's own narrower window stays in force
 * Cost     O(W) scores a decoded token; KV of W D rows a layer, older pages are freed
 * Needs    attn.mask/1 kv.per_head/1        Conflicts  kv.token_drop/1: keys that are seen now and then cannot be dropped
 * Options  window [keys, 1..2^20, default 512]
 *          dilation [whole numbers, 1..4096, default 2; of KV heads 0, 1, ..., the list beginning anew at its end]
 * Tests    tests/policy/test_patterns.c, tests/engine/test_attention_bits.c
 */
#include <stdio.h>

#include <tenon/plugin_api.h>

enum { P_WINDOW, P_DILATION };

struct tn_inst {
  const tn_host *host;
  int64_t window;
  uint32_t n, reserved0;
  int64_t dilation[]; /* [n] */
};

static tn_status describe(tn_inst *self, const tn_plan *plan, uint32_t layer, uint32_t kv_head, tn_attn_spec *out,
                          tn_err *err)
{
  (void)plan, (void)layer, (void)err;
  int64_t d = self->dilation[kv_head % self->n];
  out->kind = TN_AT_MASK;
  out->mask = (tn_mask){.lo = 0, .hi = self->window * d, .stride = d, .residue = 0, .sinks = 0};
  self->host->count(self->host->ctx, 0, 1);
  return TN_OK;
}

static tn_status validate(const tn_plan *plan, const tn_value *values, tn_err *err)
{
  (void)plan;
  const tn_value *d = &values[P_DILATION];
  if (d->len == 0) {
    snprintf(err->msg, sizeof err->msg, "dilation is an empty list, want at least one whole number");
    return err->code = TN_E_ARG;
  }
  for (uint32_t i = 0; i < d->len; i++) {
    if (d->v.list[i] == (double)(int64_t)d->v.list[i]) continue;
    snprintf(err->msg, sizeof err->msg, "dilation: number %u is %g, want a whole number", i + 1, d->v.list[i]);
    return err->code = TN_E_ARG;
  }
  return TN_OK;
}

static tn_status create(const tn_host *host, const tn_value *values, tn_inst **out, tn_err *err)
{
  const tn_value *d = &values[P_DILATION];
  *out = NULL;
  tn_status st = validate(NULL, values, err);
  if (st != TN_OK) return st;
  tn_inst *self = *out = host->alloc(host->ctx, sizeof *self + d->len * sizeof self->dilation[0], 8);
  if (!self) return TN_E_NOMEM;
  self->host = host;
  self->window = values[P_WINDOW].v.i;
  self->n = d->len;
  for (uint32_t i = 0; i < d->len; i++) self->dilation[i] = (int64_t)d->v.list[i];
  return TN_OK;
}

static void destroy(tn_inst *self) { self->host->free_(self->host->ctx, self); }

static const tn_param p_window = {.struct_size = sizeof p_window,
                                  .type = TN_T_I64,
                                  .flags = TN_P_OUTPUT,
                                  .key = "window",
                                  .help = "keys that a query sees, itself included",
                                  .unit = "tokens",
                                  .def = "512",
                                  .imin = 1,
                                  .imax = 1 << 20};
static const tn_param p_dilation = {.struct_size = sizeof p_dilation,
                                    .type = TN_T_F64_LIST,
                                    .flags = TN_P_OUTPUT,
                                    .key = "dilation",
                                    .help = "distance between them, one for all KV heads or one for each",
                                    .unit = "tokens",
                                    .def = "2",
                                    .fmin = 1,
                                    .fmax = 4096};
static const tn_param *const params[] = {[P_WINDOW] = &p_window, [P_DILATION] = &p_dilation, NULL};
static const tn_attention_v1 vtable = {.struct_size = sizeof vtable, .describe = describe};

static const char *const provides[] = {"attn.untrained/1", "attn.names_evicted/1", NULL};
static const char *const needs[] = {"attn.mask/1", "kv.per_head/1", NULL};
static const char *const conflicts[] = {"kv.token_drop/1", NULL};
static const char *const counters[] = {"heads", NULL};

static const tn_desc desc = {.struct_size = sizeof desc,
                             .slot = TN_SLOT_ATTENTION,
                             .slot_version = TN_SLOT_VERSION,
                             .flags = TN_F_DETERMINISTIC,
                             .id = "org.tenon.dilated",
                             .name = "dilated",
                             .version = "1.0.0",
                             .summary = "every query sees keys some tokens apart (Longformer, Beltagy et al. 2020)",
                             .provides = provides,
                             .needs = needs,
                             .conflicts = conflicts,
                             .params = params,
                             .counters = counters,
                             .validate = validate,
                             .create = create,
                             .destroy = destroy,
                             .vtable = &vtable};

TN_PLUGIN(dilated, "org.tenon.dilated", TN_SLOT_ATTENTION, "1.0.0", "Tenon", "Apache-2.0", desc);
