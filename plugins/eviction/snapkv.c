/* snapkv: at the prompt's end every KV head keeps what the prompt's last tokens attended to, and those tokens.
 *
 * Paper    Li et al., SnapKV: LLM Knows What You are Looking for Before Generation, NeurIPS 2024, section 4.1
 * Maths    a(j) = sum over the last w queries of the prompt of softmax probability on key j, over the query heads of a
 *          KV head; s(j) = sum of a over the keys of the prefix within kernel/2 places of j (average pooling);
 *          kept = the w keys of the window and the budget - w highest s of the prefix
 * Result   approximate: what was dropped is never attended to again. Sums are integers, so batches change no bit
 * Cost     a second pass over the scores of w rows; one compaction. Generated tokens are added, none is dropped
 * Needs    attn.scores/1 kv.token_drop/1 kv.per_head/1        Conflicts  attn.names_evicted/1
 * Options  budget  [tokens, 1..2^30, default 512]     share [0..1, default 0]: if > 0, budget = share of the prompt
 *          window  [tokens, 1..4096, default 32]      kernel [odd, 1..63, default 5]: keys that are averaged
 *          demoted [tokens, 0..2^30, default 0]: so many more stay in the layout of demote =
 *          unit    [head | layer | all, default head]: what decides together
 * Tests    tests/policy/test_snapkv.c: equal to brute force; budget >= prompt is full attention
 */
#include <stdio.h>
#include <string.h>

#include <tenon/plugin_api.h>

#define PINNED 1e30f /* above every sum of attention */

enum { P_BUDGET, P_SHARE, P_WINDOW, P_KERNEL, P_DEMOTED, P_UNIT };

struct tn_inst {
  const tn_host *host;
  int64_t budget, window, kernel, demoted, unit;
  double share;
};

static tn_status describe(tn_inst *self, const tn_plan *plan, tn_evict_spec *out, tn_err *err)
{
  static const uint32_t grans[] = {TN_GRAN_HEAD, TN_GRAN_LAYER, TN_GRAN_ALL};
  (void)plan, (void)err;
  out->kind = TN_EV_SCORE;
  out->gran = grans[self->unit];
  out->signals = TN_SIG_ATTN_WINDOW;
  out->window_rows = (uint32_t)self->window;
  out->demotes = self->demoted > 0;
  return TN_OK;
}

/* Entries in full width: share * n_prompt rounded up, and the window at least. */
static int64_t budget_of(const tn_inst *self, int64_t n_prompt)
{
  if (self->share <= 0) return self->budget;
  double want = self->share * (double)n_prompt;
  int64_t n = (int64_t)want;
  n += (double)n < want;
  return n > self->window ? n : self->window;
}

static tn_status when(tn_inst *self, tn_evict_when *w)
{
  w->next = w->pos < w->n_prompt ? w->n_prompt : TN_POS_INF;
  if (w->pos != w->n_prompt) return TN_OK;
  w->keep = budget_of(self, w->n_prompt) + self->demoted;
  if (self->demoted > 0) w->full = w->keep - self->demoted;
  return TN_OK;
}

static int64_t last_of(const tn_evict_unit *u)
{
  int64_t last = -1;
  for (int64_t i = 0; i < u->n; i++) last = u->pos[i] > last ? u->pos[i] : last;
  return last;
}

/* Sum over the prefix's entries near entry i, by places in the text. A number of keys divides all alike: left out. */
static int64_t pooled(const tn_evict_unit *u, int64_t i, int64_t reach, int64_t end)
{
  int64_t from = i > reach ? i - reach : 0, to = i + reach < u->n - 1 ? i + reach : u->n - 1, sum = 0;
  for (int64_t k = from; k <= to; k++) {
    int64_t away = u->pos[k] - u->pos[i];
    if (u->pos[k] >= 0 && u->pos[k] < end && away <= reach && away >= -reach) sum += u->window[k];
  }
  return sum;
}

static tn_status score(tn_inst *self, uint64_t seq, uint32_t n, const tn_evict_unit *const *units)
{
  (void)seq;
  for (uint32_t k = 0; k < n; k++) {
    const tn_evict_unit *u = units[k];
    int64_t end = last_of(u) + 1 - self->window; /* the window begins here */
    for (int64_t i = 0; i < u->n; i++)
      u->score[i] = u->pos[i] >= end ? PINNED : (float)pooled(u, i, self->kernel / 2, end);
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
  else if (v[P_KERNEL].v.i % 2 == 0)
    snprintf(err->msg, sizeof err->msg, "kernel = %lld: must be odd", (long long)v[P_KERNEL].v.i);
  else if (v[P_SHARE].v.f <= 0 && v[P_BUDGET].v.i <= v[P_WINDOW].v.i)
    snprintf(err->msg, sizeof err->msg, "budget = %lld leaves nothing beside window = %lld", (long long)v[P_BUDGET].v.i,
             (long long)v[P_WINDOW].v.i);
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
                           .window = v[P_WINDOW].v.i,
                           .kernel = v[P_KERNEL].v.i,
                           .demoted = v[P_DEMOTED].v.i,
                           .unit = v[P_UNIT].v.i};
  return TN_OK;
}

static void destroy(tn_inst *self) { self->host->free_(self->host->ctx, self); }

static const char *const units[] = {"head", "layer", "all"};
#define HEAD(key_, type_, def_, help_) \
  .struct_size = sizeof(tn_param), .flags = TN_P_OUTPUT, .key = key_, .type = type_, .def = def_, .help = help_
#define TOKENS .unit = "tokens"
static const tn_param all[] = {
    [P_BUDGET] = {HEAD("budget", TN_T_I64, "512", "entries that stay"), TOKENS, .imin = 1, .imax = 1 << 30},
    [P_SHARE] = {HEAD("share", TN_T_F64, "0", "if above 0: the budget is this share of the prompt"), .fmax = 1},
    [P_WINDOW] = {HEAD("window", TN_T_I64, "32", "last tokens of the prompt, which stay and choose"), TOKENS, .imin = 1,
                  .imax = 4096},
    [P_KERNEL] = {HEAD("kernel", TN_T_I64, "5", "keys over which attention is averaged"), TOKENS, .imin = 1,
                  .imax = 63},
    [P_DEMOTED] = {HEAD("demoted", TN_T_I64, "0", "entries beyond the budget that stay in fewer bits"), TOKENS,
                   .imin = 0, .imax = 1 << 30},
    [P_UNIT] = {HEAD("unit", TN_T_ENUM, "head", "what decides together"), .choices = units, .n_choices = 3}};
static const tn_param *const params[] = {&all[0], &all[1], &all[2], &all[3], &all[4], &all[5], NULL};
static const tn_eviction_v1 vtable = {.struct_size = sizeof vtable, .describe = describe, .when = when, .score = score};

static const char *const provides[] = {"kv.history/1", "kv.demote/1", NULL};
static const char *const needs[] = {"attn.scores/1", "kv.token_drop/1", "kv.per_head/1", NULL};
static const char *const conflicts[] = {"attn.names_evicted/1", NULL};
static const char *const counters[] = {"units_scored", NULL};

static const tn_desc desc = {.struct_size = sizeof desc,
                             .slot = TN_SLOT_EVICTION,
                             .slot_version = TN_SLOT_VERSION,
                             .flags = TN_F_DETERMINISTIC,
                             .id = "org.tenon.snapkv",
                             .name = "snapkv",
                             .version = "1.0.0",
                             .summary = "keep what the prompt's last tokens attended to (Li et al. 2024)",
                             .provides = provides,
                             .needs = needs,
                             .conflicts = conflicts,
                             .params = params,
                             .counters = counters,
                             .validate = validate,
                             .create = create,
                             .destroy = destroy,
                             .vtable = &vtable};

TN_PLUGIN(snapkv, "org.tenon.snapkv", TN_SLOT_EVICTION, "1.0.0", "Tenon", "Apache-2.0", desc);
