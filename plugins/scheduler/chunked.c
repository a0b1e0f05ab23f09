/* chunked: beside running streams a step has few rows, so that a long prompt, read piece by piece, does not hold them up.
 *
 * Paper    Agrawal et al., Taming Throughput-Latency Tradeoff in LLM Inference with Sarathi-Serve, OSDI 2024, section 4
 * Maths    cost of a row at text position p: 1 + p / depth rows at the text's beginning, since attention grows with p. Beside
 *          streams that cost C, prompts cost at most (stretch - 1) C (budget > 0: budget - C) and have `prompt` rows at least;
 *          by priority and arrival. No stream: max_rows. depth = 0: matrix products of a row over those of one position
 *          in attention, over DEARER, from the model's shape; without a model p does not count
 * Fairness (1) every stream gets a row in every step (while they fit); (2) the prompt that arrived first of those being read
 *          gets a quarter of what prompts may cost whatever its priority, a row in every fourth step if that is less; (3)
 *          while a request is the oldest that waits, at most `overtake` later ones are admitted; (4) the newest gives way
 *          when pages run out, so the oldest ends
 * Result   exact: which sequences share a step and how prompts are cut changes no bit; no clock is asked
 * Cost     O(sequences) for each prompt of a step, O(1) for each of its rows
 * Needs    -        Conflicts  -
 * Options  stretch [x, 1..100, default 2]        budget [rows, 0..2^20, default 0: stretch decides]
 *          depth [tokens, 0..2^20, default 0]    prompt [rows, 1..2^20, default 1]
 *          overtake [requests, 0..2^20, default 8]     reserve [tokens, 0..2^20, default 64]: kept free at admission
 *          preempt [recompute | swap]
 * Tests    tests/policy/test_chunked.c, test_scheduler.c; the gap itself: tests/measure/test_serving.c
 */
#include <tenon/plugin_api.h>

#define NONE UINT32_MAX
#define ENOUGH (INT64_MAX / 4)

enum { P_STRETCH, P_BUDGET, P_DEPTH, P_PROMPT, P_OVERTAKE, P_RESERVE, P_PREEMPT };

struct tn_inst {
  const tn_host *host;
  double stretch;
  int64_t budget, prompt, overtake, reserve, preempt;
  int64_t flat, slope; /* a row at text position p costs flat + slope p */
  uint64_t oldest;     /* the request that has waited longest, and how many passed it */
  int64_t passed;
};

static uint32_t least(int64_t a, uint32_t b) { return a < (int64_t)b ? (uint32_t)a : b; }

/* n rows for sequence i. */
static void run(tn_sched_plan *out, uint32_t i, uint32_t n)
{
  if (n == 0) return;
  out->run[out->n_run] = i;
  out->tokens[out->n_run++] = n;
}

static int64_t cost_of(const tn_inst *self, int64_t position) { return self->flat + self->slope * position; }

/* A row for each stream, drafted ones while there is room, of *left rows. Too many streams take turns. Returns what the
 * streams cost without drafted rows. */
static int64_t run_streams(const tn_inst *self, const tn_sched_view *v, tn_sched_plan *out, uint32_t n, uint32_t *left)
{
  int64_t cost = 0;
  uint32_t first = n > *left ? (uint32_t)(v->step * *left % n) : 0, at = 0, to_come = n > *left ? *left : n;
  for (uint32_t turn = 0; turn < 2; turn++, at = 0)
    for (uint32_t i = 0; i < v->n && to_come > 0; i++) {
      if (v->state[i] != TN_SEQ_DECODE || (at++ < first) != (turn == 1)) continue;
      to_come--;
      uint32_t rows = least(v->todo[i], *left - to_come);
      run(out, i, rows);
      *left -= rows;
      cost += cost_of(self, v->held[i]);
    }
  return cost;
}

static int before(const tn_sched_view *v, uint32_t a, uint32_t b)
{
  return v->priority[a] != v->priority[b] ? v->priority[a] > v->priority[b] : a < b;
}

static int waits(const tn_sched_view *v, uint32_t i)
{
  return v->state[i] == TN_SEQ_WAITING || v->state[i] == TN_SEQ_SWAPPED;
}

typedef struct prompts {  /* who shares what a step has for prompts */
  uint32_t read;          /* the last of those being read that was given rows; NONE */
  uint32_t urgent;        /* the last waiting one that priority chose; NONE */
  int64_t old;            /* waiting ones up to here are admitted: age chose them */
  uint32_t sure_of, sure; /* the oldest that is being read, and its rows for certain */
  uint32_t rows;          /* room in the step */
  int64_t cost, owed;     /* what they may cost still; rows that they have whatever they cost */
  uint32_t residents;
  int64_t room; /* free entries beyond what those being read will need */
  int full;     /* nobody else is admitted in this step */
} prompts;

static int affords(const tn_inst *self, const prompts *p, int64_t position)
{
  return p->rows > 0 && (p->owed > 0 || p->cost >= cost_of(self, position));
}

/* Up to `want` rows from a position on. Who does not get all ends it for the rest, so nobody passes for being cheaper. */
static uint32_t take(const tn_inst *self, prompts *p, int64_t position, int64_t want)
{
  uint32_t n = 0;
  for (; (int64_t)n < want && affords(self, p, position + n); n++) {
    p->cost -= cost_of(self, position + n);
    p->owed--;
    p->rows--;
  }
  if ((int64_t)n < want) p->rows = 0;
  return n;
}

/* The same out of a quarter of it all, at least one row, and nothing ends. */
static uint32_t take_quarter(const tn_inst *self, prompts *p, int64_t position, int64_t want)
{
  if (!affords(self, p, position)) return 0;
  prompts q = *p;
  q.cost = p->cost / 4;
  q.owed = 1;
  q.rows = p->rows / 4 > 0 ? p->rows / 4 : 1;
  uint32_t n = take(self, &q, position, want);
  p->cost -= p->cost / 4 - q.cost;
  p->owed -= n;
  p->rows -= n;
  return n;
}

static prompts begin(const tn_inst *self, const tn_sched_view *v, uint32_t rows, int64_t cost)
{
  prompts p = {.read = NONE,
               .urgent = NONE,
               .old = -1,
               .sure_of = NONE,
               .rows = rows,
               .cost = cost,
               .owed = self->prompt,
               .room = v->free_tokens};
  for (uint32_t i = 0; i < v->n; i++) {
    p.residents += !waits(v, i);
    if (v->state[i] != TN_SEQ_PREFILL) continue;
    if (p.sure_of == NONE) p.sure_of = i;
    p.room -= v->todo[i];
  }
  if (p.sure_of == NONE) return p;
  int64_t held = v->held[p.sure_of];
  int often = p.rows >= 4 && p.cost / 4 >= cost_of(self, held);
  if (often || v->step % 4 == 0) p.sure = take_quarter(self, &p, held, v->todo[p.sure_of]);
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
  if (p->full || p->residents >= v->max_seqs) return NONE;
  for (uint32_t i = 0; i < v->n; i++) {
    if (!waits(v, i) || (int64_t)i <= p->old || (p->urgent != NONE && !before(v, p->urgent, i))) continue;
    if (oldest == NONE) oldest = i;
    if (best == NONE || before(v, i, best)) best = i;
  }
  if (oldest == NONE) return NONE;
  if (v->seq[oldest] != self->oldest) self->oldest = v->seq[oldest], self->passed = 0;
  *aged = best != oldest && self->passed >= self->overtake;
  if (*aged) best = oldest;
  return affords(self, p, v->held[best]) ? best : NONE;
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
  /* one that age chose is not urgent */
  run(out, i, aged ? take_quarter(self, p, v->held[i], v->todo[i]) : take(self, p, v->held[i], v->todo[i]));
  p->room -= need;
  p->residents++;
}

static void run_prompts(tn_inst *self, const tn_sched_view *v, tn_sched_plan *out, uint32_t rows, int64_t cost)
{
  prompts p = begin(self, v, rows, cost);
  for (;;) {
    int aged;
    uint32_t r = next_read(v, &p), w = next_waiting(self, v, &p, &aged);
    if (w != NONE && (r == NONE || aged || before(v, w, r))) {
      admit(self, v, out, &p, w, aged);
      continue;
    }
    if (r == NONE) return;
    uint32_t own = r == p.sure_of ? p.sure : 0;
    run(out, r, own + take(self, &p, v->held[r] + own, v->todo[r] - own));
    p.read = r;
  }
}

/* Rows that drafted ones leave for prompts. */
static uint32_t rows_kept(const tn_inst *self, uint32_t streams, uint32_t rows)
{
  uint32_t kept = least(self->prompt, rows / 2);
  int64_t share = self->budget > 0 ? 0 : (int64_t)((self->stretch - 1) * streams), spare = (int64_t)rows - streams;
  if (share > spare) share = spare;
  return share > kept ? (uint32_t)share : kept;
}

static tn_status plan(tn_inst *self, const tn_sched_view *v, tn_sched_plan *out)
{
  uint32_t streams = 0, others = 0;
  for (uint32_t i = 0; i < v->n; i++) {
    streams += v->state[i] == TN_SEQ_DECODE;
    others += v->state[i] != TN_SEQ_DECODE;
  }
  int64_t most = self->budget > streams + self->prompt ? self->budget : streams + self->prompt;
  uint32_t rows = streams > 0 && self->budget > 0 ? least(most, v->max_rows) : v->max_rows;
  uint32_t kept = streams > 0 && others > 0 ? rows_kept(self, streams, rows) : 0, left = rows - kept;
  int64_t cost = ENOUGH;
  if (streams > 0) {
    int64_t own = run_streams(self, v, out, streams, &left);
    cost = self->budget > 0 ? self->budget * self->flat - own : (int64_t)((self->stretch - 1) * (double)own);
  }
  run_prompts(self, v, out, left + kept, cost);
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

/* Depth at which a row costs twice what it costs at the beginning: products of a row with the weights over products of one
 * position in attention, which are floating point where those are 8 bits wide and cost DEARER times as much. */
enum { DEARER = 6 };
static int64_t depth_of(const tn_model_shape *s)
{
  double heads = s->n_heads, kv = s->n_kv_heads, d = s->d_model, dh = s->d_head;
  double row = d * dh * (2 * heads + 2 * kv) + 3 * d * s->d_ff, position = 2 * heads * dh;
  int64_t depth = (int64_t)(row / position / DEARER);
  return depth > 1 ? depth : 1;
}

static tn_status create(const tn_host *host, const tn_value *v, tn_inst **out, tn_err *err)
{
  (void)err;
  *out = host->alloc(host->ctx, sizeof **out, 8);
  if (!*out) return TN_E_NOMEM;
  const tn_svc_model *model = host->service(host->ctx, "tenon.model/1");
  int64_t depth = v[P_DEPTH].v.i > 0 || !model ? v[P_DEPTH].v.i : depth_of(model->shape);
  **out = (struct tn_inst){.host = host,
                           .stretch = v[P_STRETCH].v.f,
                           .budget = v[P_BUDGET].v.i,
                           .prompt = v[P_PROMPT].v.i,
                           .overtake = v[P_OVERTAKE].v.i,
                           .reserve = v[P_RESERVE].v.i,
                           .preempt = v[P_PREEMPT].v.i,
                           .flat = depth > 0 ? depth : 1,
                           .slope = depth > 0,
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
    [P_STRETCH] = {.struct_size = sizeof(tn_param),
                   .type = TN_T_F64,
                   .key = "stretch",
                   .unit = "x",
                   .def = "2",
                   .fmin = 1,
                   .fmax = 100,
                   .help = "what a step beside streams may cost, as a multiple of the streams alone"},
    [P_BUDGET] = COUNT("budget", "rows", "0", 0, "what a step beside streams may cost, in rows; 0: stretch decides"),
    [P_DEPTH] = COUNT("depth", "tokens", "0", 0, "position at which a row costs double; 0: from the model's shape"),
    [P_PROMPT] = COUNT("prompt", "rows", "1", 1, "rows of a step that prompts get at least"),
    [P_OVERTAKE] = COUNT("overtake", "requests", "8", 0, "later requests that may be admitted before the oldest"),
    [P_RESERVE] = COUNT("reserve", "tokens", "64", 0, "free cache entries to keep when a request is admitted"),
    [P_PREEMPT] = {.struct_size = sizeof(tn_param),
                   .type = TN_T_ENUM,
                   .key = "preempt",
                   .def = "recompute",
                   .choices = ways,
                   .n_choices = 2,
                   .help = "what happens to a sequence that gives way"}};
static const tn_param *const params[] = {&all[0], &all[1], &all[2], &all[3], &all[4], &all[5], &all[6], NULL};
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
