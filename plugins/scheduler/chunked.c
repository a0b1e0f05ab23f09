/* chunked: beside running streams a step has few rows, so that a long prompt, read piece by piece, does not hold them up.
 *
 * Paper    Agrawal et al., Taming Throughput-Latency Tradeoff in LLM Inference with Sarathi-Serve, OSDI 2024, section 4
 * Maths    rows of a step while D streams decode: max(budget, D + prompt), max_rows at most; one for each stream, then prompts
 *          by priority and arrival. No stream: max_rows
 * Fairness (1) every stream gets a row in every step (while D fits); (2) the prompt that arrived first of those being read
 *          gets a quarter of a step's prompt rows whatever its priority; (3) while a request is the oldest that waits, at
 *          most `overtake` later ones are admitted; (4) the newest gives way when pages run out, so the oldest ends
 * Result   exact: which sequences share a step and how prompts are cut changes no bit
 * Cost     O(sequences) for each prompt of a step
 * Needs    -        Conflicts  -
 * Options  budget [rows, 1..2^20, default 64]     prompt [rows, 1..2^20, default 8]: rows that prompts get at least
 *          overtake [requests, 0..2^20, default 8]     reserve [tokens, 0..2^20, default 64]: kept free at admission
 *          preempt [recompute | swap]
 * Tests    tests/policy/test_chunked.c, test_scheduler.c
 */
#include <tenon/plugin_api.h>

#define NONE UINT32_MAX

enum { P_BUDGET, P_PROMPT, P_OVERTAKE, P_RESERVE, P_PREEMPT };

struct tn_inst {
  const tn_host *host;
  int64_t budget, prompt, overtake, reserve, preempt;
  uint64_t oldest; /* the request that has waited longest, and how many passed it */
  int64_t passed;
};

static uint32_t least(int64_t a, uint32_t b) { return a < (int64_t)b ? (uint32_t)a : b; }

/* n rows for sequence i; returns n. */
static uint32_t run(tn_sched_plan *out, uint32_t i, uint32_t n)
{
  if (n == 0) return 0;
  out->run[out->n_run] = i;
  out->tokens[out->n_run++] = n;
  return n;
}

/* A row for each stream, drafted ones while there is room. Too many streams take turns. */
static void run_streams(const tn_sched_view *v, tn_sched_plan *out, uint32_t n, uint32_t *left)
{
  uint32_t first = n > *left ? (uint32_t)(v->step * *left % n) : 0, at = 0, to_come = n > *left ? *left : n;
  for (uint32_t turn = 0; turn < 2; turn++, at = 0)
    for (uint32_t i = 0; i < v->n && to_come > 0; i++) {
      if (v->state[i] != TN_SEQ_DECODE || (at++ < first) != (turn == 1)) continue;
      to_come--;
      *left -= run(out, i, least(v->todo[i], *left - to_come));
    }
}

static int before(const tn_sched_view *v, uint32_t a, uint32_t b)
{
  return v->priority[a] != v->priority[b] ? v->priority[a] > v->priority[b] : a < b;
}

static int waits(const tn_sched_view *v, uint32_t i)
{
  return v->state[i] == TN_SEQ_WAITING || v->state[i] == TN_SEQ_SWAPPED;
}

typedef struct prompts {  /* who shares the rows that a step has for prompts */
  uint32_t read;          /* the last of those being read that was given rows; NONE */
  uint32_t urgent;        /* the last waiting one that priority chose; NONE */
  int64_t old;            /* waiting ones up to here are admitted: age chose them */
  uint32_t sure_of, sure; /* the oldest that is being read, and its rows for certain */
  uint32_t rest, residents;
  int64_t room; /* free entries beyond what those being read will need */
  int full;     /* nobody else is admitted in this step */
} prompts;

static prompts begin(const tn_sched_view *v, uint32_t rows)
{
  prompts p = {.read = NONE, .urgent = NONE, .old = -1, .sure_of = NONE, .rest = rows, .room = v->free_tokens};
  for (uint32_t i = 0; i < v->n; i++) {
    p.residents += !waits(v, i);
    if (v->state[i] != TN_SEQ_PREFILL) continue;
    if (p.sure_of == NONE) p.sure_of = i;
    p.room -= v->todo[i];
  }
  if (p.sure_of == NONE || rows == 0) return p;
  p.sure = least(v->todo[p.sure_of], rows / 4 > 0 ? rows / 4 : 1);
  p.rest -= p.sure;
  return p;
}

/* The most urgent of those being read that has no rows yet. */
static uint32_t next_read(const tn_sched_view *v, const prompts *p)
{
  uint32_t best = NONE;
  for (uint32_t i = 0; i < v->n; i++) {
    if (v->state[i] != TN_SEQ_PREFILL || (p->read != NONE && !before(v, p->read, i))) continue;
    if (best == NONE || before(v, i, best)) best = i;
  }
  return best;
}

/* The next to admit: the most urgent, or, once enough have passed it (*aged), the oldest. */
static uint32_t next_waiting(tn_inst *self, const tn_sched_view *v, const prompts *p, int *aged)
{
  uint32_t oldest = NONE, best = NONE;
  *aged = 0;
  if (p->full || p->rest == 0 || p->residents >= v->max_seqs) return NONE;
  for (uint32_t i = 0; i < v->n; i++) {
    if (!waits(v, i) || (int64_t)i <= p->old || (p->urgent != NONE && !before(v, p->urgent, i))) continue;
    if (oldest == NONE) oldest = i;
    if (best == NONE || before(v, i, best)) best = i;
  }
  if (oldest == NONE) return NONE;
  if (v->seq[oldest] != self->oldest) self->oldest = v->seq[oldest], self->passed = 0;
  *aged = best != oldest && self->passed >= self->overtake;
  return *aged ? oldest : best;
}

/* Admits request i, if it fits: else no smaller one passes it. */
static void admit(tn_inst *self, const tn_sched_view *v, tn_sched_plan *out, prompts *p, uint32_t i, int aged)
{
  int64_t need = v->todo[i] + v->held[i] + v->page_tokens;
  p->full = p->residents > 0 && need + self->reserve > p->room;
  if (p->full) return;
  if (aged)
    p->old = i;
  else
    p->urgent = i;
  self->passed += v->seq[i] != self->oldest;
  uint32_t most = aged && p->rest / 4 > 0 ? p->rest / 4 : p->rest; /* it is not urgent */
  p->rest -= run(out, i, least(v->todo[i], most));
  p->room -= need;
  p->residents++;
}

static void run_prompts(tn_inst *self, const tn_sched_view *v, tn_sched_plan *out, uint32_t rows)
{
  prompts p = begin(v, rows);
  for (;;) {
    int aged;
    uint32_t r = next_read(v, &p), w = next_waiting(self, v, &p, &aged);
    if (w != NONE && (r == NONE || aged || before(v, w, r))) {
      admit(self, v, out, &p, w, aged);
      continue;
    }
    if (r == NONE) return;
    uint32_t own = r == p.sure_of ? p.sure : 0, more = least(v->todo[r] - own, p.rest);
    run(out, r, own + more);
    p.rest -= more;
    p.read = r;
  }
}

static tn_status plan(tn_inst *self, const tn_sched_view *v, tn_sched_plan *out)
{
  uint32_t streams = 0, others = 0;
  for (uint32_t i = 0; i < v->n; i++) {
    streams += v->state[i] == TN_SEQ_DECODE;
    others += v->state[i] != TN_SEQ_DECODE;
  }
  int64_t most = self->budget > streams + self->prompt ? self->budget : streams + self->prompt;
  uint32_t rows = streams > 0 ? least(most, v->max_rows) : v->max_rows;
  uint32_t kept = streams > 0 && others > 0 ? least(self->prompt, rows / 2) : 0, left = rows - kept;
  if (streams > 0) run_streams(v, out, streams, &left);
  run_prompts(self, v, out, left + kept);
  self->host->count(self->host->ctx, 0, out->n_run);
  return TN_OK;
}

/* Pages ran out: the newest running sequence gives way. */
static tn_status victim(tn_inst *self, const tn_sched_view *v, uint32_t blocked, uint32_t *index, uint32_t *how)
{
  *index = blocked;
  *how = self->preempt ? TN_PREEMPT_SWAP : TN_PREEMPT_RECOMPUTE;
  for (uint32_t i = 0; i < v->n; i++)
    if (v->state[i] == TN_SEQ_PREFILL || v->state[i] == TN_SEQ_DECODE) *index = i;
  self->host->count(self->host->ctx, 1, 1);
  return TN_OK;
}

static tn_status create(const tn_host *host, const tn_value *v, tn_inst **out, tn_err *err)
{
  (void)err;
  *out = host->alloc(host->ctx, sizeof **out, 8);
  if (!*out) return TN_E_NOMEM;
  **out = (struct tn_inst){.host = host,
                           .budget = v[P_BUDGET].v.i,
                           .prompt = v[P_PROMPT].v.i,
                           .overtake = v[P_OVERTAKE].v.i,
                           .reserve = v[P_RESERVE].v.i,
                           .preempt = v[P_PREEMPT].v.i,
                           .oldest = UINT64_MAX};
  return TN_OK;
}

static void destroy(tn_inst *self) { self->host->free_(self->host->ctx, self); }

static const char *const ways[] = {"recompute", "swap"};
#define COUNT(key_, unit_, def_, min_, help_)                                                                 \
  {                                                                                                           \
    .struct_size = sizeof(tn_param), .type = TN_T_I64, .key = key_, .unit = unit_, .def = def_, .imin = min_, \
    .imax = 1 << 20, .help = help_                                                                            \
  }
static const tn_param all[] = {
    [P_BUDGET] = COUNT("budget", "rows", "64", 1, "rows of a step while sequences generate"),
    [P_PROMPT] = COUNT("prompt", "rows", "8", 1, "rows of a step that prompts get at least"),
    [P_OVERTAKE] = COUNT("overtake", "requests", "8", 0, "later requests that may be admitted before the oldest"),
    [P_RESERVE] = COUNT("reserve", "tokens", "64", 0, "free cache entries to keep when a request is admitted"),
    [P_PREEMPT] = {.struct_size = sizeof(tn_param),
                   .type = TN_T_ENUM,
                   .key = "preempt",
                   .def = "recompute",
                   .choices = ways,
                   .n_choices = 2,
                   .help = "what happens to a sequence that gives way"}};
static const tn_param *const params[] = {&all[0], &all[1], &all[2], &all[3], &all[4], NULL};
static const tn_scheduler_v1 vtable = {.struct_size = sizeof vtable, .plan = plan, .victim = victim};

static const char *const counters[] = {"planned", "preempted", NULL};

static const tn_desc desc = {.struct_size = sizeof desc,
                             .slot = TN_SLOT_SCHEDULER,
                             .slot_version = TN_SLOT_VERSION,
                             .flags = TN_F_DETERMINISTIC | TN_F_EXACT,
                             .id = "org.tenon.chunked",
                             .name = "chunked",
                             .version = "1.0.0",
                             .summary =
                                 "long prompts in pieces beside running streams (Sarathi-Serve, Agrawal et al. 2024)",
                             .params = params,
                             .counters = counters,
                             .create = create,
                             .destroy = destroy,
                             .vtable = &vtable};

TN_PLUGIN(chunked, "org.tenon.chunked", TN_SLOT_SCHEDULER, "1.0.0", "Tenon", "Apache-2.0", desc);
