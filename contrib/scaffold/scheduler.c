/* my_plugin: first come, first served; what runs goes on, and one request is admitted after the other.
 *
 * Paper    -
 * Maths    rows of a step: running sequences in order of arrival, then waiting ones while the free entries hold them
 * Result   exact: which sequences share a step changes no bit
 * Cost     O(sequences) a step
 * Needs    -        Conflicts  -
 * Options  most  [tokens, 1..2^20, default 256]: tokens of one sequence in one step
 */
#include <tenon/plugin_api.h>

struct tn_inst {
  const tn_host *host;
  int64_t most;
};

/* Gives sequence i its rows; at most what is left of the step. */
static void take(const tn_inst *self, const tn_sched_view *v, tn_sched_plan *out, uint32_t i, uint32_t *left)
{
  int64_t n = v->todo[i];
  if (n > self->most) n = self->most;
  if (n > (int64_t)*left) n = *left;
  if (n <= 0) return;
  out->run[out->n_run] = i;
  out->tokens[out->n_run++] = (uint32_t)n;
  *left -= (uint32_t)n;
}

static int running(const tn_sched_view *v, uint32_t i)
{
  return v->state[i] == TN_SEQ_PREFILL || v->state[i] == TN_SEQ_DECODE;
}

static tn_status plan(tn_inst *self, const tn_sched_view *v, tn_sched_plan *out)
{
  uint32_t left = v->max_rows, resident = 0;
  int64_t room = v->free_tokens;
  for (uint32_t i = 0; i < v->n; i++)
    if (running(v, i)) take(self, v, out, i, &left), resident++;
  for (uint32_t i = 0; i < v->n && left > 0 && resident < v->max_seqs; i++) {
    int64_t need = v->todo[i] + v->held[i] + v->page_tokens;
    if (running(v, i)) continue;
    if (resident > 0 && need > room) break;
    take(self, v, out, i, &left);
    room -= need;
    resident++;
  }
  self->host->count(self->host->ctx, 0, out->n_run);
  return TN_OK;
}

/* Pages ran out: the newest running sequence gives way and is computed again later. */
static tn_status victim(tn_inst *self, const tn_sched_view *v, uint32_t blocked, uint32_t *index, uint32_t *how)
{
  (void)self;
  *index = blocked;
  *how = TN_PREEMPT_RECOMPUTE;
  for (uint32_t i = 0; i < v->n; i++)
    if (running(v, i)) *index = i;
  return TN_OK;
}

static tn_status create(const tn_host *host, const tn_value *values, tn_inst **out, tn_err *err)
{
  (void)err;
  *out = host->alloc(host->ctx, sizeof **out, 8);
  if (!*out) return TN_E_NOMEM;
  (*out)->host = host;
  (*out)->most = values[0].v.i;
  return TN_OK;
}

static void destroy(tn_inst *self) { self->host->free_(self->host->ctx, self); }

static const tn_param p_most = {.struct_size = sizeof p_most,
                                .type = TN_T_I64,
                                .key = "most",
                                .help = "tokens of one sequence in one step",
                                .unit = "tokens",
                                .def = "256",
                                .imin = 1,
                                .imax = 1 << 20};
static const tn_param *const params[] = {&p_most, NULL};
static const tn_scheduler_v1 vtable = {.struct_size = sizeof vtable, .plan = plan, .victim = victim};

static const char *const counters[] = {"planned", NULL};

static const tn_desc desc = {.struct_size = sizeof desc,
                             .slot = TN_SLOT_SCHEDULER,
                             .slot_version = TN_SLOT_VERSION,
                             .flags = TN_F_DETERMINISTIC | TN_F_EXACT,
                             .id = "org.example.my_plugin",
                             .name = "my_plugin",
                             .version = "0.1.0",
                             .summary = "first come, first served",
                             .params = params,
                             .counters = counters,
                             .create = create,
                             .destroy = destroy,
                             .vtable = &vtable};

TN_PLUGIN(my_plugin, "org.example.my_plugin", TN_SLOT_SCHEDULER, "0.1.0", "Example", "Apache-2.0", desc);
