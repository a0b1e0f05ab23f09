/* position probe: both hooks of the slot.
 *
 * long_from  a sequence that may reach this length turns in regime 1, the others in regime 0; 0: all in regime 0
 * slow       regime 1: frequencies are divided by slow, and cosines and sines multiplied by `scale`
 * fault      none, or what table() does: error, nan, fast (a frequency that no table can hold) */
#include <math.h>
#include <string.h>

#include "probe.h"

enum { P_LONG, P_SLOW, P_SCALE, P_FAULT };
enum { NONE, ERROR, NOT_A_NUMBER, FAST };

struct tn_inst {
  const tn_host *host;
  int64_t long_from, fault;
  double slow, scale;
  probe_position seen;
};

static tn_status table(tn_inst *self, const tn_rope_query *q, tn_rope_spec *out, tn_err *err)
{
  self->seen.tables++;
  self->seen.bad +=
      q->dims == 0 || q->base <= 1 || q->scaling == NULL || q->regime < 0 || q->regime > 1 || q->n_ctx_train <= 0;
  if (self->fault == ERROR) {
    err->code = TN_E_UNSUPPORTED;
    strcpy(err->msg, "no table on Sundays");
    return TN_E_UNSUPPORTED;
  }
  for (uint32_t i = 0; i < q->dims / 2; i++)
    out->inv_freq[i] = pow(q->base, -2.0 * i / q->dims) / (q->regime == 1 ? self->slow : 1);
  out->mscale = q->regime == 1 ? self->scale : 1;
  if (self->fault == NOT_A_NUMBER) out->inv_freq[1] = NAN;
  if (self->fault == FAST) out->inv_freq[0] = 1e9;
  self->host->count(self->host->ctx, 0, 1);
  return TN_OK;
}

static int64_t regime(tn_inst *self, int64_t n_prompt, int64_t max_len)
{
  int64_t r = self->long_from > 0 && max_len >= self->long_from;
  self->seen.regimes++;
  self->seen.bad += n_prompt < 1 || max_len < n_prompt;
  memmove(self->seen.regime + 1, self->seen.regime, sizeof self->seen.regime - sizeof *self->seen.regime);
  self->seen.regime[0] = r;
  return r;
}

static const void *ext(tn_inst *self, const char *id) { return strcmp(id, PROBE_EXT) == 0 ? &self->seen : NULL; }

static tn_status create(const tn_host *host, const tn_value *v, tn_inst **out, tn_err *err)
{
  (void)err;
  *out = host->alloc(host->ctx, sizeof **out, 8);
  if (!*out) return TN_E_NOMEM;
  memset(*out, 0, sizeof **out);
  (*out)->host = host;
  (*out)->long_from = v[P_LONG].v.i;
  (*out)->slow = v[P_SLOW].v.f;
  (*out)->scale = v[P_SCALE].v.f;
  (*out)->fault = v[P_FAULT].v.i;
  return TN_OK;
}

static void destroy(tn_inst *self) { self->host->free_(self->host->ctx, self); }

static const char *const faults[] = {"none", "error", "nan", "fast"};
#define HEAD(key_, type_, def_) \
  .struct_size = sizeof(tn_param), .key = key_, .help = key_, .type = type_, .def = def_, .flags = TN_P_OUTPUT
static const tn_param p_long = {HEAD("long_from", TN_T_I64, "0"), .imin = 0, .imax = 1 << 30};
static const tn_param p_slow = {HEAD("slow", TN_T_F64, "4"), .fmin = 1, .fmax = 1000};
static const tn_param p_scale = {HEAD("scale", TN_T_F64, "1.25"), .fmin = 0.1, .fmax = 10};
static const tn_param p_fault = {HEAD("fault", TN_T_ENUM, "none"), .choices = faults, .n_choices = 4};
static const tn_param *const params[] = {&p_long, &p_slow, &p_scale, &p_fault, NULL};
static const tn_position_v1 vtable = {.struct_size = sizeof vtable, .table = table, .regime = regime};

static const char *const counters[] = {"tables", NULL};

static const tn_desc desc = {.struct_size = sizeof desc,
                             .slot = TN_SLOT_POSITION,
                             .slot_version = TN_SLOT_VERSION,
                             .flags = TN_F_DETERMINISTIC,
                             .id = "org.tenon.test.position",
                             .name = "probe",
                             .version = "1.0.0",
                             .summary = "every hook of the slot position",
                             .params = params,
                             .counters = counters,
                             .create = create,
                             .destroy = destroy,
                             .ext = ext,
                             .vtable = &vtable};

TN_PLUGIN(position_probe, "org.tenon.test.position", TN_SLOT_POSITION, "1.0.0", "Tenon", "Apache-2.0", desc);
