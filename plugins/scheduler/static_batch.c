/* static_batch: a batch of requests runs until its last member is done; the next batch waits.
 *
 * Paper    the baseline of Yu et al., Orca, OSDI 2022, section 2
 * Maths    steps of a batch = longest member; no admission while any member runs
 * Result   exact: which sequences share a step changes no bit
 * Cost     rows idle behind short members
 * Needs    -        Conflicts  -
 * Options  batch  [sequences, 1..1024, default 8]
 * Tests    tests/policy/test_scheduler.c
 */
#include <stdbool.h>

#include <tenon/plugin_api.h>

struct tn_inst {
  const tn_host *host;
  uint32_t batch;
};

static uint32_t least(int64_t a, uint32_t b) { return a < (int64_t)b ? (uint32_t)a : b; }

static tn_status plan(tn_inst *self, const tn_sched_view *v, tn_sched_plan *out)
{
  uint32_t left = v->max_rows, members = 0;
  for (uint32_t i = 0; i < v->n; i++) members += v->state[i] != TN_SEQ_WAITING;
  bool open = members == 0;
  uint32_t room = self->batch < v->max_seqs ? self->batch : v->max_seqs;
  for (uint32_t i = 0; i < v->n && left > 0; i++) {
    bool waits = v->state[i] == TN_SEQ_WAITING;
    if (waits && (!open || room == 0)) continue;
    if (waits) room--;
    uint32_t n = least(v->todo[i], left);
    out->run[out->n_run] = i;
    out->tokens[out->n_run++] = n;
    left -= n;
  }
  self->host->count(self->host->ctx, 0, out->n_run);
  return TN_OK;
}

/* Pages ran out: the newest member gives way. */
static tn_status victim(tn_inst *self, const tn_sched_view *v, uint32_t blocked, uint32_t *index, uint32_t *how)
{
  (void)self;
  *index = blocked;
  *how = TN_PREEMPT_SWAP;
  for (uint32_t i = 0; i < v->n; i++)
    if (v->state[i] == TN_SEQ_PREFILL || v->state[i] == TN_SEQ_DECODE) *index = i;
  return TN_OK;
}

static tn_status create(const tn_host *host, const tn_value *values, tn_inst **out, tn_err *err)
{
  (void)err;
  *out = host->alloc(host->ctx, sizeof **out, 8);
  if (!*out) return TN_E_NOMEM;
  (*out)->host = host;
  (*out)->batch = (uint32_t)values[0].v.i;
  return TN_OK;
}

static void destroy(tn_inst *self) { self->host->free_(self->host->ctx, self); }

static const tn_param p_batch = {.struct_size = sizeof p_batch,
                                 .type = TN_T_I64,
                                 .key = "batch",
                                 .help = "sequences that start together",
                                 .unit = "sequences",
                                 .def = "8",
                                 .imin = 1,
                                 .imax = 1024};
static const tn_param *const params[] = {&p_batch, NULL};
static const tn_scheduler_v1 vtable = {.struct_size = sizeof vtable, .plan = plan, .victim = victim};

static const char *const counters[] = {"planned", NULL};

static const tn_desc desc = {.struct_size = sizeof desc,
                             .slot = TN_SLOT_SCHEDULER,
                             .slot_version = TN_SLOT_VERSION,
                             .flags = TN_F_DETERMINISTIC | TN_F_EXACT,
                             .id = "org.tenon.static_batch",
                             .name = "static_batch",
                             .version = "1.0.0",
                             .summary = "a batch runs until its last member is done (baseline of Yu et al. 2022)",
                             .params = params,
                             .counters = counters,
                             .create = create,
                             .destroy = destroy,
                             .vtable = &vtable};

TN_PLUGIN(static_batch, "org.tenon.static_batch", TN_SLOT_SCHEDULER, "1.0.0", "Tenon", "Apache-2.0", desc);
