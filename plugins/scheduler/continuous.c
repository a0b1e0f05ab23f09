/* continuous: every step takes what runs and admits what fits.
 *
 * Paper    Yu et al., Orca, OSDI 2022, section 3.2 (iteration-level scheduling); preemption as Kwon et al., SOSP 2023
 * Maths    rows of a step: every decoding sequence first, then prompts in order of arrival, then waiting requests while
 *          the free pages hold them
 * Result   exact: which sequences share a step changes no bit
 * Cost     O(sequences) a step
 * Needs    -        Conflicts  -
 * Options  reserve  [tokens, 0..2^20, default 64]: free entries kept when a request is admitted
 * Tests    tests/policy/test_scheduler.c
 */
#include <tenon/plugin_api.h>

struct tn_inst {
  const tn_host *host;
  int64_t reserve;
};

static void take(tn_sched_plan *out, uint32_t i, int64_t n, uint32_t *left)
{
  uint32_t k = n < (int64_t)*left ? (uint32_t)n : *left;
  if (k == 0) return;
  out->run[out->n_run] = i;
  out->tokens[out->n_run++] = k;
  *left -= k;
}

/* Decoding sequences share the step: one row each first, then their drafted rows while there is room. */
static void take_decoding(const tn_sched_view *v, tn_sched_plan *out, uint32_t *left)
{
  uint32_t n = 0;
  for (uint32_t i = 0; i < v->n; i++) n += v->state[i] == TN_SEQ_DECODE;
  for (uint32_t i = 0; i<v->n && * left> 0; i++) {
    if (v->state[i] != TN_SEQ_DECODE) continue;
    int64_t spare = (int64_t)*left - n + 1;
    take(out, i, v->todo[i] < spare ? v->todo[i] : spare > 0 ? spare : 1, left);
    n--;
  }
}

static tn_status plan(tn_inst *self, const tn_sched_view *v, tn_sched_plan *out)
{
  uint32_t left = v->max_rows, resident = 0;
  int64_t room = v->free_tokens;
  take_decoding(v, out, &left);
  for (uint32_t i = 0; i < v->n; i++) {
    resident += v->state[i] == TN_SEQ_DECODE || v->state[i] == TN_SEQ_PREFILL;
    if (v->state[i] == TN_SEQ_PREFILL) take(out, i, v->todo[i], &left);
  }
  for (uint32_t i = 0; i < v->n && left > 0 && resident < v->max_seqs; i++) {
    if (v->state[i] != TN_SEQ_WAITING && v->state[i] != TN_SEQ_SWAPPED) continue;
    int64_t need = v->todo[i] + v->held[i] + v->page_tokens;
    if (resident > 0 && need + self->reserve > room) break; /* in order of arrival: nobody overtakes */
    take(out, i, v->todo[i], &left);
    room -= need;
    resident++;
  }
  self->host->count(self->host->ctx, 0, out->n_run);
  return TN_OK;
}

/* Pages ran out: the newest running sequence gives way and is run again later. */
static tn_status victim(tn_inst *self, const tn_sched_view *v, uint32_t blocked, uint32_t *index, uint32_t *how)
{
  *index = blocked;
  *how = TN_PREEMPT_RECOMPUTE;
  for (uint32_t i = 0; i < v->n; i++)
    if (v->state[i] == TN_SEQ_PREFILL || v->state[i] == TN_SEQ_DECODE) *index = i;
  self->host->count(self->host->ctx, 1, 1);
  return TN_OK;
}

static tn_status create(const tn_host *host, const tn_value *values, tn_inst **out, tn_err *err)
{
  (void)err;
  *out = host->alloc(host->ctx, sizeof **out, 8);
  if (!*out) return TN_E_NOMEM;
  (*out)->host = host;
  (*out)->reserve = values[0].v.i;
  return TN_OK;
}

static void destroy(tn_inst *self) { self->host->free_(self->host->ctx, self); }

static const tn_param p_reserve = {.struct_size = sizeof p_reserve,
                                   .type = TN_T_I64,
                                   .key = "reserve",
                                   .help = "free cache entries to keep when a request is admitted beside others",
                                   .unit = "tokens",
                                   .def = "64",
                                   .imin = 0,
                                   .imax = 1 << 20};
static const tn_param *const params[] = {&p_reserve, NULL};
static const tn_scheduler_v1 vtable = {.struct_size = sizeof vtable, .plan = plan, .victim = victim};

static const char *const counters[] = {"planned", "preempted", NULL};

static const tn_desc desc = {.struct_size = sizeof desc,
                             .slot = TN_SLOT_SCHEDULER,
                             .slot_version = TN_SLOT_VERSION,
                             .flags = TN_F_DETERMINISTIC | TN_F_EXACT,
                             .id = "org.tenon.continuous",
                             .name = "continuous",
                             .version = "1.0.0",
                             .summary = "every step takes what runs and admits what fits (Orca, Yu et al. 2022)",
                             .params = params,
                             .counters = counters,
                             .create = create,
                             .destroy = destroy,
                             .vtable = &vtable};

TN_PLUGIN(continuous, "org.tenon.continuous", TN_SLOT_SCHEDULER, "1.0.0", "Tenon", "Apache-2.0", desc);
