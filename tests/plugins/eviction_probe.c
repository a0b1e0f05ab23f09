/* eviction probe: every hook of the slot, every signal, every verdict, and state of its own for each sequence.
 *
 * policy   h2o     the highest accumulated attention stays         (TN_SIG_ATTN)
 *          snap    as the window of the prompt saw it, pooled over 5; acts once, behind the prompt (TN_SIG_ATTN_WINDOW)
 *          knorm   the smallest keys stay                            (TN_SIG_KNORM)
 *          all     the sum of all three signals, each in its unit
 *          mask    positions alone: TN_EV_POSITION with hi, stride and sinks
 * The last `recent` and the first `sinks` tokens are pinned by their score. Acts when a multiple of `every` tokens is
 * committed. With stateful = 1 every second decision of a sequence is turned upside down.
 * fault    none, or: next (not behind the position), keep (below none), nan, status, uneven (a head drops more), begin */
#include <math.h>
#include <string.h>

#include "probe.h"

enum { H2O, SNAP, KNORM, ALL, MASK };
enum { V_SCORE, V_DROP, V_DEMOTE_EVEN, V_DEMOTE_ALL, V_DEMOTE_NONE };
enum {
  P_POLICY,
  P_GRAN,
  P_VERDICT,
  P_BUDGET,
  P_EVERY,
  P_RECENT,
  P_SINKS,
  P_WINDOW,
  P_RANK_ROPE,
  P_STATEFUL,
  P_HI,
  P_STRIDE,
  P_FAULT
};
enum { F_NONE, F_NEXT, F_KEEP, F_NAN, F_STATUS, F_UNEVEN, F_BEGIN };
enum { SLOTS = 256 };
#define PINNED 1e30f

typedef struct history { /* of one sequence; id 0: free */
  uint64_t id, decisions;
} history;

struct tn_inst {
  const tn_host *host;
  int64_t policy, gran, verdict, budget, every, recent, sinks, window, rank_rope, stateful, hi, stride, fault;
  probe_eviction seen;
  history of[SLOTS];
};

/* ---------------------------------------------------------------- tenon.sequence/1 */

static history *find(tn_inst *self, uint64_t id)
{
  for (int i = 0; i < SLOTS; i++)
    if (self->of[i].id == id) return &self->of[i];
  return NULL;
}

static tn_status begin(tn_inst *self, uint64_t seq, const tn_value *values)
{
  history *h = find(self, seq) ? NULL : find(self, 0);
  if (self->fault == F_BEGIN) return TN_E_DEVICE;
  if (!h || values[P_POLICY].v.i != self->policy) return TN_E_STATE;
  *h = (history){seq, 0};
  self->seen.lives.begins++;
  return TN_OK;
}

static void end(tn_inst *self, uint64_t seq)
{
  history *h = find(self, seq);
  self->seen.lives.ends++;
  if (h)
    h->id = 0;
  else
    self->seen.lives.strays++;
}

static tn_status fork_one(tn_inst *self, uint64_t parent, uint64_t child)
{
  history *from = find(self, parent), *to = find(self, child);
  self->seen.lives.forks++;
  if (!from || !to) return TN_E_STATE;
  to->decisions = from->decisions;
  return TN_OK;
}

static tn_status save(tn_inst *self, uint64_t seq, const tn_writer *w)
{
  history *h = find(self, seq);
  self->seen.lives.saves++;
  return h ? w->write(w->ctx, &h->decisions, sizeof h->decisions) : TN_E_STATE;
}

static tn_status load(tn_inst *self, uint64_t seq, const void *p, uint64_t n, tn_err *err)
{
  history *h = find(self, seq);
  (void)err;
  self->seen.lives.loads++;
  if (!h || n != sizeof h->decisions) return TN_E_IO;
  memcpy(&h->decisions, p, sizeof h->decisions);
  return TN_OK;
}

static const tn_ext_sequence sequence = {sizeof sequence, 0, begin, end, fork_one, save, load};

static const void *ext(tn_inst *self, const char *id)
{
  if (strcmp(id, "tenon.sequence/1") == 0) return &sequence;
  return strcmp(id, PROBE_EXT) == 0 ? &self->seen : NULL;
}

/* ---------------------------------------------------------------- the slot */

static tn_status describe(tn_inst *self, const tn_plan *plan, tn_evict_spec *out, tn_err *err)
{
  static const uint32_t signals[] = {TN_SIG_ATTN, TN_SIG_ATTN_WINDOW, TN_SIG_KNORM,
                                     TN_SIG_ATTN | TN_SIG_ATTN_WINDOW | TN_SIG_KNORM, 0};
  (void)plan, (void)err;
  out->gran = (uint32_t)self->gran + TN_GRAN_ALL;
  if (self->policy == MASK) {
    out->kind = TN_EV_POSITION;
    out->mask = (tn_mask){0, self->hi, self->stride, 0, self->sinks};
    return TN_OK;
  }
  out->kind = TN_EV_SCORE;
  out->signals = signals[self->policy];
  out->window_rows = (uint32_t)self->window;
  out->demotes = self->verdict >= V_DEMOTE_EVEN;
  out->rank_rope = self->rank_rope != 0;
  return TN_OK;
}

static tn_status when(tn_inst *self, tn_evict_when *w)
{
  self->seen.whens++;
  w->next = TN_POS_INF;
  w->keep = -1;
  if (self->policy == SNAP) {
    if (w->pos < w->n_prompt) w->next = w->n_prompt;
    if (w->pos == w->n_prompt) w->keep = self->budget;
    return TN_OK;
  }
  w->next = (w->pos / self->every + 1) * self->every;
  if (w->pos > 0 && w->pos % self->every == 0) w->keep = self->budget;
  if (w->pos > 0 && self->fault == F_NEXT) w->next = w->pos;
  if (w->pos > 0 && self->fault == F_KEEP) w->keep = -2;
  return TN_OK;
}

/* Average over the up to five entries around i that are there. */
static double pooled(const int64_t *x, const int64_t *pos, int64_t n, int64_t i)
{
  double sum = 0;
  int around = 0;
  for (int64_t k = i - 2; k <= i + 2; k++) {
    if (k < 0 || k >= n || pos[k] < 0) continue;
    sum += (double)x[k];
    around++;
  }
  return sum / around;
}

static float score_of(const tn_inst *self, const tn_evict_unit *u, int64_t i, int64_t last, int upside_down)
{
  double s = 0;
  if (u->pos[i] < self->sinks || u->pos[i] > last - self->recent) return PINNED;
  if (self->policy == H2O || self->policy == ALL) s += (double)u->attn[i];
  if (self->policy == SNAP) s += pooled(u->window, u->pos, u->n, i);
  if (self->policy == ALL) s += (double)u->window[i];
  if (self->policy == KNORM || self->policy == ALL) s -= (double)u->knorm[i];
  return (float)(upside_down ? -s : s);
}

static uint8_t verdict_of(const tn_inst *self, int64_t pos, int64_t last)
{
  switch (self->verdict) {
    case V_DROP: return pos % 5 == 1 && pos <= last - self->recent ? TN_DROP : TN_KEEP;
    case V_DEMOTE_EVEN: return pos % 2 == 0 ? TN_DEMOTE : TN_KEEP;
    case V_DEMOTE_ALL: return TN_DEMOTE;
    default: return TN_KEEP;
  }
}

/* Signals as declared, and only those; positions ascend but for demoted entries, which come first. */
static int sound(const tn_inst *self, const tn_evict_unit *u)
{
  int attn = self->policy == H2O || self->policy == ALL, window = self->policy == SNAP || self->policy == ALL;
  int falls = 0;
  int64_t before = -1;
  for (int64_t i = 0; i < u->n; i++) {
    if (u->pos[i] < 0) continue;
    if (u->verdict[i] != TN_KEEP) return 0;
    falls += u->pos[i] <= before;
    before = u->pos[i];
  }
  return !u->attn == !attn && !u->window == !window && !u->knorm == !(self->policy == KNORM || self->policy == ALL) &&
         falls <= (self->verdict >= V_DEMOTE_EVEN ? 1 : 0) && u->keep >= 0;
}

static tn_status score(tn_inst *self, uint64_t seq, uint32_t n, const tn_evict_unit *const *units)
{
  history *h = find(self, seq);
  if (!h || self->fault == F_STATUS) return TN_E_DEVICE;
  int upside_down = self->stateful && h->decisions % 2 == 1;
  h->decisions++;
  self->seen.scores++;
  self->seen.units += n;
  for (uint32_t k = 0; k < n; k++) {
    const tn_evict_unit *u = units[k];
    int64_t last = -1;
    self->seen.bad += !sound(self, u);
    for (int64_t i = 0; i < u->n; i++) last = u->pos[i] > last ? u->pos[i] : last;
    for (int64_t i = 0; i < u->n; i++) {
      if (u->pos[i] < 0) continue;
      u->score[i] = score_of(self, u, i, last, upside_down);
      u->verdict[i] = verdict_of(self, u->pos[i], last);
      if (self->fault == F_NAN && i == 3) u->score[i] = NAN;
      if (self->fault == F_UNEVEN && u->head == 1 && u->pos[i] % 3 == 0) u->verdict[i] = TN_DROP;
    }
  }
  self->host->count(self->host->ctx, 0, n);
  return TN_OK;
}

/* ---------------------------------------------------------------- life and options */

static tn_status set(tn_inst *self, uint32_t param, const tn_value *v, tn_err *err)
{
  (void)err;
  if (param != P_BUDGET) return TN_E_UNSUPPORTED;
  self->budget = v->v.i;
  self->seen.sets++;
  return TN_OK;
}

static tn_status create(const tn_host *host, const tn_value *v, tn_inst **out, tn_err *err)
{
  (void)err;
  *out = host->alloc(host->ctx, sizeof **out, 8);
  if (!*out) return TN_E_NOMEM;
  **out = (struct tn_inst){host,
                           v[P_POLICY].v.i,
                           v[P_GRAN].v.i,
                           v[P_VERDICT].v.i,
                           v[P_BUDGET].v.i,
                           v[P_EVERY].v.i,
                           v[P_RECENT].v.i,
                           v[P_SINKS].v.i,
                           v[P_WINDOW].v.i,
                           v[P_RANK_ROPE].v.i,
                           v[P_STATEFUL].v.i,
                           v[P_HI].v.i,
                           v[P_STRIDE].v.i,
                           v[P_FAULT].v.i,
                           {{0}, 0, 0, 0, 0, 0},
                           {{0, 0}}};
  return TN_OK;
}

static void destroy(tn_inst *self) { self->host->free_(self->host->ctx, self); }

static const char *const policies[] = {"h2o", "snap", "knorm", "all", "mask"};
static const char *const grans[] = {"all", "layer", "head"};
static const char *const faults[] = {"none", "next", "keep", "nan", "status", "uneven", "begin"};
static const char *const verdicts[] = {"score", "drop", "demote_even", "demote_all", "demote_none"};
#define HEAD(key_, type_, def_) .struct_size = sizeof(tn_param), .key = key_, .help = key_, .type = type_, .def = def_
#define COUNT(i_, key_, def_, flags_) \
  [i_] = {HEAD(key_, TN_T_I64, def_), .flags = TN_P_OUTPUT | (flags_), .imin = 0, .imax = TN_POS_INF}
#define CHOICE(i_, key_, def_, list_)                                          \
  [i_] = {HEAD(key_, TN_T_ENUM, def_), .flags = TN_P_OUTPUT, .choices = list_, \
          .n_choices = sizeof list_ / sizeof *list_}
static const tn_param all[] = {CHOICE(P_POLICY, "policy", "h2o", policies),
                               CHOICE(P_GRAN, "gran", "all", grans),
                               CHOICE(P_VERDICT, "verdict", "score", verdicts),
                               COUNT(P_BUDGET, "budget", "32", TN_P_RUNTIME),
                               [P_EVERY] = {HEAD("every", TN_T_I64, "16"), .imin = 1, .imax = 4096},
                               COUNT(P_RECENT, "recent", "8", 0),
                               COUNT(P_SINKS, "sinks", "0", 0),
                               COUNT(P_WINDOW, "window", "8", 0),
                               [P_RANK_ROPE] = {HEAD("rank_rope", TN_T_BOOL, "0")},
                               [P_STATEFUL] = {HEAD("stateful", TN_T_BOOL, "0")},
                               COUNT(P_HI, "hi", "4611686018427387903", 0),
                               [P_STRIDE] = {HEAD("stride", TN_T_I64, "1"), .imin = 1, .imax = 64},
                               CHOICE(P_FAULT, "fault", "none", faults)};
static const tn_param *const params[] = {&all[0], &all[1], &all[2], &all[3],  &all[4],  &all[5],  &all[6],
                                         &all[7], &all[8], &all[9], &all[10], &all[11], &all[12], NULL};
static const tn_eviction_v1 vtable = {.struct_size = sizeof vtable, .describe = describe, .when = when, .score = score};

static const char *const provides[] = {"kv.history/1", "kv.demote/1", NULL};
static const char *const needs[] = {
    "attn.mask/1", "attn.scores/1", "kv.token_drop/1", "kv.per_head/1", "kv.raw/1", "kv.layouts/1", NULL};
static const char *const counters[] = {"units_scored", NULL};

static const tn_desc desc = {.struct_size = sizeof desc,
                             .slot = TN_SLOT_EVICTION,
                             .slot_version = TN_SLOT_VERSION,
                             .flags = TN_F_DETERMINISTIC,
                             .id = "org.tenon.test.eviction",
                             .name = "probe",
                             .version = "1.0.0",
                             .summary = "every hook of the slot eviction",
                             .provides = provides,
                             .needs = needs,
                             .params = params,
                             .counters = counters,
                             .create = create,
                             .destroy = destroy,
                             .set = set,
                             .ext = ext,
                             .vtable = &vtable};

TN_PLUGIN(eviction_probe, "org.tenon.test.eviction", TN_SLOT_EVICTION, "1.0.0", "Tenon", "Apache-2.0", desc);
