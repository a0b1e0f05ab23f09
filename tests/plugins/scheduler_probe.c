/* scheduler probe: random legal plans, and every kind of illegal one.
 *
 * seed     of the draws (tenon.rng/1)
 * preempt  percent of residents that a plan preempts          victims  who gives way when pages run out
 * how      how they are preempted
 * fault    none, or what plan() or victim() does against the contract, from step `from` on, `times` times */
#include <string.h>

#include "probe.h"

enum { P_SEED, P_PREEMPT, P_HOW, P_VICTIMS, P_FAULT, P_FROM, P_TIMES };
enum { RECOMPUTE, SWAP, EITHER };
enum { V_ANY, V_BLOCKED, V_NEWEST };
enum {
  NONE,
  ROWS,
  TWICE,
  RANGE,
  TOKENS,
  NO_TOKENS,
  MANY,
  PREEMPT_RANGE,
  PREEMPT_TWICE,
  PREEMPT_WAITING,
  HOW,
  STATUS,
  VICTIM_RANGE,
  VICTIM_STATUS
};

struct tn_inst {
  const tn_host *host;
  const tn_svc_rng *rng;
  const tn_svc_clock *clock;
  uint64_t seed;
  int64_t preempt, how, victims, fault, from, times;
  probe_scheduler seen;
};

static double uniform(tn_inst *self, uint32_t index)
{
  return self->rng->uniform(self->host->ctx, self->seed, self->seen.plans, 1, index);
}

static uint32_t some_how(tn_inst *self, uint32_t index)
{
  if (self->how != EITHER) return self->how == SWAP ? TN_PREEMPT_SWAP : TN_PREEMPT_RECOMPUTE;
  return uniform(self, index) < 0.5 ? TN_PREEMPT_SWAP : TN_PREEMPT_RECOMPUTE;
}

static int resident(const tn_sched_view *v, uint32_t i)
{
  return v->state[i] == TN_SEQ_PREFILL || v->state[i] == TN_SEQ_DECODE;
}

/* What the contract says of a view. */
static int sound(tn_inst *self, const tn_sched_view *v)
{
  uint32_t held = 0;
  uint64_t now = self->clock->now_ns(self->host->ctx);
  for (uint32_t i = 0; i < v->n; i++) {
    int ok = v->state[i] >= TN_SEQ_WAITING && v->state[i] <= TN_SEQ_SWAPPED && v->todo[i] >= 1 && v->held[i] >= 0;
    ok = ok && v->held[i] + 1 <= v->most[i] + 1 && v->arrival_ns[i] <= now && (i == 0 || v->seq[i] > v->seq[i - 1]);
    ok = ok && (v->state[i] != TN_SEQ_WAITING || v->held[i] == 0);
    ok = ok && (v->state[i] != TN_SEQ_DECODE || v->held[i] > 0);
    if (!ok) return 0;
    held += (uint32_t)resident(v, i);
  }
  return held <= v->max_seqs && v->free_tokens >= 0 && v->page_tokens > 0;
}

static void put(tn_sched_plan *p, uint32_t index, uint32_t tokens)
{
  p->run[p->n_run] = index;
  p->tokens[p->n_run++] = tokens;
}

static void put_preempt(tn_sched_plan *p, uint32_t index, uint32_t how)
{
  p->preempt[p->n_preempt] = index;
  p->how[p->n_preempt++] = how;
}

static void legal(tn_inst *self, const tn_sched_view *v, tn_sched_plan *p)
{
  uint32_t left = v->max_rows, start = (uint32_t)(uniform(self, 0) * v->n), residents = 0;
  for (uint32_t i = 0; i < v->n; i++) {
    if (resident(v, i) && uniform(self, 4 * i + 1) * 100 < (double)self->preempt) {
      put_preempt(p, i, some_how(self, 4 * i + 2));
      self->seen.preempts++;
    }
    residents += (uint32_t)resident(v, i);
  }
  for (uint32_t k = 0; k < v->n && left > 0; k++) { /* from anywhere in the queue on; some are left out */
    uint32_t i = (start + k) % v->n;
    double u = uniform(self, 4 * i + 3);
    if (u < 0.25 || (!resident(v, i) && residents >= v->max_seqs)) continue;
    int64_t most = v->todo[i] < (int64_t)left ? v->todo[i] : (int64_t)left;
    uint32_t tokens = 1 + (uint32_t)((u - 0.25) / 0.75 * (double)most);
    put(p, i, tokens > most ? (uint32_t)most : tokens);
    left -= p->tokens[p->n_run - 1];
    residents += (uint32_t)!resident(v, i);
  }
}

/* Overwrites a part of a legal plan. */
static tn_status illegal(tn_inst *self, const tn_sched_view *v, tn_sched_plan *p)
{
  uint32_t holder = 0, waiting = v->n;
  while (holder < v->n && !resident(v, holder)) holder++;
  for (uint32_t i = 0; i < v->n; i++)
    if (!resident(v, i)) waiting = i;
  p->n_run = p->n_preempt = 0;
  put(p, 0, 1);
  switch (self->fault) {
    case ROWS:
      p->n_run = 0;
      for (uint32_t i = 0; i < v->n; i++) put(p, i, (uint32_t)v->todo[i]);
      break;
    case TWICE:
      p->run[1] = 0;
      p->tokens[1] = 1;
      p->n_run = 2;
      break;
    case RANGE: p->run[0] = v->n; break;
    case TOKENS: p->tokens[0] = (uint32_t)v->todo[0] + 1; break;
    case NO_TOKENS: p->tokens[0] = 0; break;
    case MANY: p->n_run = v->n + 1; break;
    case PREEMPT_RANGE: put_preempt(p, v->n, TN_PREEMPT_SWAP); break;
    case PREEMPT_TWICE:
      put_preempt(p, holder, TN_PREEMPT_SWAP);
      put_preempt(p, holder, TN_PREEMPT_SWAP);
      break;
    case PREEMPT_WAITING: put_preempt(p, waiting, TN_PREEMPT_SWAP); break;
    case HOW: put_preempt(p, holder, 9); break;
    default: return TN_E_DEVICE;
  }
  return TN_OK;
}

static tn_status plan(tn_inst *self, const tn_sched_view *v, tn_sched_plan *p)
{
  self->seen.plans++;
  self->seen.bad += !sound(self, v) || p->n_run != 0 || p->n_preempt != 0;
  legal(self, v, p);
  self->host->count(self->host->ctx, 0, p->n_run);
  if (self->fault == NONE || self->fault >= VICTIM_RANGE || (int64_t)v->step < self->from || self->times == 0)
    return TN_OK;
  self->times--;
  return illegal(self, v, p);
}

static tn_status victim(tn_inst *self, const tn_sched_view *v, uint32_t blocked, uint32_t *index, uint32_t *how)
{
  self->seen.victims++;
  self->seen.bad += blocked >= v->n || !resident(v, blocked);
  *how = some_how(self, 4 * v->n);
  if (self->fault == VICTIM_STATUS) return TN_E_INTERNAL;
  *index = self->fault == VICTIM_RANGE ? v->n + 7 : blocked;
  if (self->fault == VICTIM_RANGE || self->victims == V_BLOCKED) return TN_OK;
  uint32_t start = self->victims == V_ANY ? (uint32_t)(uniform(self, 4 * v->n + 1) * v->n) : 0;
  for (uint32_t k = 0; k < v->n; k++) {
    uint32_t i = (start + k) % v->n;
    if (!resident(v, i)) continue;
    *index = i;
    if (self->victims == V_ANY) break;
  }
  return TN_OK;
}

static const void *ext(tn_inst *self, const char *id) { return strcmp(id, PROBE_EXT) == 0 ? &self->seen : NULL; }

static tn_status create(const tn_host *host, const tn_value *v, tn_inst **out, tn_err *err)
{
  (void)err;
  *out = host->alloc(host->ctx, sizeof **out, 8);
  if (!*out) return TN_E_NOMEM;
  memset(*out, 0, sizeof **out);
  (*out)->host = host;
  (*out)->rng = host->service(host->ctx, "tenon.rng/1");
  (*out)->clock = host->service(host->ctx, "tenon.clock/1");
  (*out)->seed = (uint64_t)v[P_SEED].v.i;
  (*out)->preempt = v[P_PREEMPT].v.i;
  (*out)->how = v[P_HOW].v.i;
  (*out)->victims = v[P_VICTIMS].v.i;
  (*out)->fault = v[P_FAULT].v.i;
  (*out)->from = v[P_FROM].v.i;
  (*out)->times = v[P_TIMES].v.i;
  return TN_OK;
}

static void destroy(tn_inst *self) { self->host->free_(self->host->ctx, self); }

static const char *const hows[] = {"recompute", "swap", "either"}, *const victims[] = {"any", "blocked", "newest"};
static const char *const faults[] = {"none",      "rows",   "twice",         "range",         "tokens",
                                     "no_tokens", "many",   "preempt_range", "preempt_twice", "preempt_waiting",
                                     "how",       "status", "victim_range",  "victim_status"};
#define HEAD(key_, type_, def_) .struct_size = sizeof(tn_param), .key = key_, .help = key_, .type = type_, .def = def_
static const tn_param p_seed = {HEAD("seed", TN_T_I64, "1"), .imin = 0, .imax = 1 << 30};
static const tn_param p_preempt = {HEAD("preempt", TN_T_I64, "0"), .imin = 0, .imax = 90};
static const tn_param p_how = {HEAD("how", TN_T_ENUM, "either"), .choices = hows, .n_choices = 3};
static const tn_param p_victims = {HEAD("victims", TN_T_ENUM, "any"), .choices = victims, .n_choices = 3};
static const tn_param p_fault = {HEAD("fault", TN_T_ENUM, "none"), .choices = faults, .n_choices = 14};
static const tn_param p_from = {HEAD("from", TN_T_I64, "2"), .imin = 0, .imax = 1 << 30};
static const tn_param p_times = {HEAD("times", TN_T_I64, "1"), .imin = 0, .imax = 1 << 30};
static const tn_param *const params[] = {&p_seed, &p_preempt, &p_how, &p_victims, &p_fault, &p_from, &p_times, NULL};
static const tn_scheduler_v1 vtable = {.struct_size = sizeof vtable, .plan = plan, .victim = victim};

static const char *const counters[] = {"planned", NULL};

static const tn_desc desc = {.struct_size = sizeof desc,
                             .slot = TN_SLOT_SCHEDULER,
                             .slot_version = TN_SLOT_VERSION,
                             .flags = TN_F_DETERMINISTIC | TN_F_EXACT,
                             .id = "org.tenon.test.scheduler",
                             .name = "probe",
                             .version = "1.0.0",
                             .summary = "every hook of the slot scheduler",
                             .params = params,
                             .counters = counters,
                             .create = create,
                             .destroy = destroy,
                             .ext = ext,
                             .vtable = &vtable};

TN_PLUGIN(scheduler_probe, "org.tenon.test.scheduler", TN_SLOT_SCHEDULER, "1.0.0", "Tenon", "Apache-2.0", desc);
