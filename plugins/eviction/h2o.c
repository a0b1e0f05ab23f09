/* h2o: every KV head keeps its last tokens and its heavy hitters, the tokens that have been attended to most.
 *
 * Paper    Zhang et al., H2O: Heavy-Hitter Oracle for Efficient Generative Inference of LLMs, NeurIPS 2023, section 4
 * Maths    acc(j) = sum over all queries so far of softmax probability on key j, summed over the query heads of a KV head;
 *          kept = the last R = recent * budget tokens and the budget - R highest acc among the others;
 *          decided when the prompt is committed, then whenever a multiple of `every` tokens is
 * Result   approximate: what was dropped is never attended to again. Sums are integers, so batches change no bit
 * Cost     a second pass over the scores of attention; one compaction per `every` tokens; budget + every entries a head
 * Needs    attn.scores/1 kv.token_drop/1 kv.per_head/1        Conflicts  attn.names_evicted/1
 * Options  budget  [tokens, 1..2^30, default 512]     share [0..1, default 0]: if > 0, budget = share of the prompt
 *          recent  [0..1, default 0.5]: share of the budget for the last tokens; 1 is a plain window
 *          every   [tokens, 1..4096, default 32]      acts [after_prompt | always]: always bounds a long prompt as well
 *          demoted [tokens, 0..2^30, default 0]: so many more stay in the layout of demote =
 *          unit    [head | layer | all, default head]: what decides together
 * Tests    tests/policy/test_h2o.c: equal to brute force; budget >= text is full attention; recent = 1 is a window
 */
#include <stdio.h>
#include <string.h>

#include <tenon/plugin_api.h>

#define PINNED 1e30f /* above every sum of attention */

enum { P_BUDGET, P_SHARE, P_RECENT, P_EVERY, P_ACTS, P_DEMOTED, P_UNIT };
enum { AFTER_PROMPT, ALWAYS };

struct tn_inst {
  const tn_host *host;
  int64_t budget, every, acts, demoted, unit;
  double share, recent;
};

static tn_status describe(tn_inst *self, const tn_plan *plan, tn_evict_spec *out, tn_err *err)
{
  static const uint32_t grans[] = {TN_GRAN_HEAD, TN_GRAN_LAYER, TN_GRAN_ALL};
  (void)plan, (void)err;
  out->kind = TN_EV_SCORE;
  out->gran = grans[self->unit];
  out->signals = TN_SIG_ATTN;
  out->demotes = self->demoted > 0;
  return TN_OK;
}

/* Entries in full width; share * n_prompt is rounded up. */
static int64_t budget_of(const tn_inst *self, int64_t n_prompt)
{
  if (self->share <= 0) return self->budget;
  double want = self->share * (double)n_prompt;
  int64_t n = (int64_t)want;
  return n + ((double)n < want);
}

static tn_status when(tn_inst *self, tn_evict_when *w)
{
  int64_t start = self->acts == ALWAYS ? 0 : w->n_prompt, at = w->pos;
  int64_t budget = budget_of(self, w->n_prompt);
  w->next = (at / self->every + 1) * self->every;
  if (at < start) w->next = start;
  int due = at > 0 && at >= start && (at == start || at % self->every == 0);
  if (!due) return TN_OK;
  w->keep = budget + self->demoted;
  if (self->demoted > 0) w->full = budget;
  return TN_OK;
}

static int64_t last_of(const tn_evict_unit *u)
{
  int64_t last = -1;
  for (int64_t i = 0; i < u->n; i++) last = u->pos[i] > last ? u->pos[i] : last;
  return last;
}

static tn_status score(tn_inst *self, uint64_t seq, uint32_t n, const tn_evict_unit *const *units)
{
  (void)seq;
  for (uint32_t k = 0; k < n; k++) {
    const tn_evict_unit *u = units[k];
    int64_t recent = (int64_t)(self->recent * (double)(u->keep - self->demoted)), last = last_of(u);
    for (int64_t i = 0; i < u->n; i++) u->score[i] = u->pos[i] > last - recent ? PINNED : (float)u->attn[i];
  }
  self->host->count(self->host->ctx, 0, n);
  return TN_OK;
}

static tn_status validate(const tn_plan *plan, const tn_value *v, tn_err *err)
{
  const char *quantizer = NULL;
  for (uint32_t i = 0; i < plan->n_parts; i++)
    if (strcmp(plan->parts[i]->key, "demote") == 0) quantizer = plan->parts[i]->name;
  long long demoted = v[P_DEMOTED].v.i;
  if (quantizer && demoted == 0)
    snprintf(err->msg, sizeof err->msg, "demote = %s would store nothing, since demoted = 0", quantizer);
  else if (!quantizer && demoted > 0)
    snprintf(err->msg, sizeof err->msg, "demoted = %lld, but demote = names no quantizer to store them", demoted);
  else
    return TN_OK;
  return TN_E_ARG;
}

static tn_status create(const tn_host *host, const tn_value *v, tn_inst **out, tn_err *err)
{
  (void)err;
  *out = host->alloc(host->ctx, sizeof **out, 8);
  if (!*out) return TN_E_NOMEM;
  **out = (struct tn_inst){.host = host,
                           .budget = v[P_BUDGET].v.i,
                           .share = v[P_SHARE].v.f,
                           .recent = v[P_RECENT].v.f,
                           .every = v[P_EVERY].v.i,
                           .acts = v[P_ACTS].v.i,
                           .demoted = v[P_DEMOTED].v.i,
                           .unit = v[P_UNIT].v.i};
  return TN_OK;
}

static void destroy(tn_inst *self) { self->host->free_(self->host->ctx, self); }

static const char *const acts[] = {"after_prompt", "always"}, *const units[] = {"head", "layer", "all"};
#define HEAD(key_, type_, def_, help_) \
  .struct_size = sizeof(tn_param), .flags = TN_P_OUTPUT, .key = key_, .type = type_, .def = def_, .help = help_
#define TOKENS .unit = "tokens"
static const tn_param all[] = {
    [P_BUDGET] = {HEAD("budget", TN_T_I64, "512", "entries that stay"), TOKENS, .imin = 1, .imax = 1 << 30},
    [P_SHARE] = {HEAD("share", TN_T_F64, "0", "if above 0: the budget is this share of the prompt"), .fmax = 1},
    [P_RECENT] = {HEAD("recent", TN_T_F64, "0.5", "share of the budget for the last tokens"), .fmax = 1},
    [P_EVERY] = {HEAD("every", TN_T_I64, "32", "tokens between two decisions"), TOKENS, .imin = 1, .imax = 4096},
    [P_ACTS] = {HEAD("acts", TN_T_ENUM, "after_prompt", "from when on"), .choices = acts, .n_choices = 2},
    [P_DEMOTED] = {HEAD("demoted", TN_T_I64, "0", "entries beyond the budget that stay in fewer bits"), TOKENS,
                   .imin = 0, .imax = 1 << 30},
    [P_UNIT] = {HEAD("unit", TN_T_ENUM, "head", "what decides together"), .choices = units, .n_choices = 3}};
static const tn_param *const params[] = {&all[0], &all[1], &all[2], &all[3], &all[4], &all[5], &all[6], NULL};
static const tn_eviction_v1 vtable = {.struct_size = sizeof vtable, .describe = describe, .when = when, .score = score};

static const char *const provides[] = {"kv.history/1", "kv.demote/1", NULL};
static const char *const needs[] = {"attn.scores/1", "kv.token_drop/1", "kv.per_head/1", NULL};
static const char *const conflicts[] = {"attn.names_evicted/1", NULL};
static const char *const counters[] = {"units_scored", NULL};

static const tn_desc desc = {.struct_size = sizeof desc,
                             .slot = TN_SLOT_EVICTION,
                             .slot_version = TN_SLOT_VERSION,
                             .flags = TN_F_DETERMINISTIC,
                             .id = "org.tenon.h2o",
                             .name = "h2o",
                             .version = "1.0.0",
                             .summary = "keep the last tokens and the heavy hitters of every head (Zhang et al. 2023)",
                             .provides = provides,
                             .needs = needs,
                             .conflicts = conflicts,
                             .params = params,
                             .counters = counters,
                             .validate = validate,
                             .create = create,
                             .destroy = destroy,
                             .vtable = &vtable};

TN_PLUGIN(h2o, "org.tenon.h2o", TN_SLOT_EVICTION, "1.0.0", "Tenon", "Apache-2.0", desc);
