/* scheduler_slow: sequences in order of arrival, as continuous does without preemption, and a share of every step burnt,
 * so that an engine is slower by a known amount. What a step takes is the median time from one plan to the next over the
 * last WINDOW of them: prompts and pauses between turns are rare among them. */
#include <tenon/plugin_api.h>

enum { WINDOW = 9 };

struct tn_inst {
  const tn_host *host;
  const tn_svc_clock *clock;
  double share;
  uint64_t last, gap[WINDOW]; /* end of the last plan; ns, the newest n_gaps % WINDOW */
  uint64_t n_gaps;
};

static uint64_t median(const tn_inst *self)
{
  uint64_t sorted[WINDOW];
  for (int i = 0; i < WINDOW; i++) {
    int k = i;
    for (; k > 0 && sorted[k - 1] > self->gap[i]; k--) sorted[k] = sorted[k - 1];
    sorted[k] = self->gap[i];
  }
  return sorted[WINDOW / 2];
}

static void burn(tn_inst *self)
{
  uint64_t start = self->clock->now_ns(self->host->ctx), now = start;
  if (self->last) self->gap[self->n_gaps++ % WINDOW] = start - self->last;
  if (self->n_gaps >= WINDOW) {
    uint64_t ns = (uint64_t)(self->share * (double)median(self));
    while (now - start < ns) now = self->clock->now_ns(self->host->ctx);
    self->host->count(self->host->ctx, 1, (now - start) / 1000);
  }
  self->last = now;
}

static tn_status plan(tn_inst *self, const tn_sched_view *v, tn_sched_plan *out)
{
  uint32_t left = v->max_rows, room = v->max_seqs;
  burn(self);
  for (uint32_t i = 0; i < v->n; i++) room -= v->state[i] != TN_SEQ_WAITING && room > 0;
  for (uint32_t i = 0; i < v->n && left > 0; i++) {
    if (v->state[i] == TN_SEQ_WAITING && room == 0) continue;
    if (v->state[i] == TN_SEQ_WAITING) room--;
    uint32_t n = v->todo[i] < (int64_t)left ? (uint32_t)v->todo[i] : left;
    out->run[out->n_run] = i;
    out->tokens[out->n_run++] = n;
    left -= n;
  }
  self->host->count(self->host->ctx, 0, out->n_run);
  return TN_OK;
}

static tn_status victim(tn_inst *self, const tn_sched_view *v, uint32_t blocked, uint32_t *index, uint32_t *how)
{
  (void)self, (void)v;
  *index = blocked;
  *how = TN_PREEMPT_SWAP;
  return TN_OK;
}

static tn_status create(const tn_host *host, const tn_value *values, tn_inst **out, tn_err *err)
{
  (void)err;
  *out = host->alloc(host->ctx, sizeof **out, 8);
  if (!*out) return TN_E_NOMEM;
  **out = (tn_inst){.host = host, .clock = host->service(host->ctx, "tenon.clock/1"), .share = values[0].v.f / 100};
  return (*out)->clock ? TN_OK : TN_E_UNSUPPORTED;
}

static void destroy(tn_inst *self) { self->host->free_(self->host->ctx, self); }

static const tn_param p_percent = {.struct_size = sizeof p_percent,
                                   .type = TN_T_F64,
                                   .key = "percent",
                                   .help = "of a step that is burnt",
                                   .unit = "percent",
                                   .def = "3",
                                   .fmin = 0,
                                   .fmax = 1000};
static const tn_param *const params[] = {&p_percent, NULL};
static const tn_scheduler_v1 vtable = {.struct_size = sizeof vtable, .plan = plan, .victim = victim};
static const char *const counters[] = {"planned", "burnt_us", NULL};

static const tn_desc desc = {.struct_size = sizeof desc,
                             .slot = TN_SLOT_SCHEDULER,
                             .slot_version = TN_SLOT_VERSION,
                             .flags = TN_F_EXACT,
                             .id = "org.tenon.test.slow",
                             .name = "slow",
                             .version = "1.0.0",
                             .summary = "burns a share of every step",
                             .params = params,
                             .counters = counters,
                             .create = create,
                             .destroy = destroy,
                             .vtable = &vtable};

TN_PLUGIN(slow, "org.tenon.test.slow", TN_SLOT_SCHEDULER, "1.0.0", "Tenon", "Apache-2.0", desc);
