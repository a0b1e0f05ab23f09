/* rig: see rig.h. */
#include "ab/rig.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ab/stats.h"
#include "engine/engine_int.h"

static uint64_t clock_now(const tn_ab_rig *r) { return r->clock_ns + (tn_now_ns() - r->step_ns); }

static void on_token(void *ctx, const tn_token_event *e)
{
  tn_ab_rig *r = ctx;
  if (r->score) {
    tn_events forward = tn_scorer_events(r->scorer);
    if (forward.token) forward.token(forward.ctx, e);
    return;
  }
  if (r->n_tokens >= r->n_gen) return;
  uint64_t now = clock_now(r);
  if (!r->gave && r->n_tokens > 0) r->gap[r->n_gaps++] = (double)(now - r->last_ns) / 1e9;
  if (!r->gave && r->n_tokens == 0) r->first_ns = now;
  if (r->last_ns == 0 || r->first_ns == r->last_ns) r->n_first += r->gave || r->n_tokens == 0;
  if (!r->gave) r->last_ns = now;
  r->gave = true;
  r->tokens[r->n_tokens++] = e->token;
}

static void on_logits(void *ctx, uint64_t seq, void *user, int64_t pos, const float *row)
{
  tn_ab_rig *r = ctx;
  if (!r->score) return;
  tn_events e = tn_scorer_events(r->scorer);
  e.logits(e.ctx, seq, user, pos, row);
}

static void on_finish(void *ctx, const tn_seq *seq, uint32_t why, const char *msg)
{
  tn_ab_rig *r = ctx;
  if (r->score) {
    tn_events e = tn_scorer_events(r->scorer);
    e.finish(e.ctx, seq, why, msg);
    return;
  }
  r->over = true;
  r->n_cached += (uint64_t)seq->n_cached;
  r->n_drafted += seq->n_drafted;
  r->n_dropped += seq->n_dropped;
  r->n_demoted += seq->n_demoted;
  if (why == TN_FINISH_ERROR) snprintf(r->failed, sizeof r->failed, "%s", msg ? msg : "a sequence failed");
}

tn_events tn_ab_rig_events(tn_ab_rig *r)
{
  return (tn_events){.ctx = r, .token = on_token, .logits = on_logits, .finish = on_finish};
}

tn_status tn_ab_rig_open(tn_ab_rig *r, const tn_setup_args *args, int64_t n_gen, tn_err *err)
{
  tn_setup_args a = *args;
  uint64_t start = tn_now_ns();
  *r = (tn_ab_rig){.n_gen = n_gen};
  r->tokens = tn_zalloc((size_t)n_gen + 1, sizeof *r->tokens);
  r->gap = tn_zalloc((size_t)n_gen + 1, sizeof *r->gap);
  r->scorer = tn_scorer_new();
  if (!r->tokens || !r->gap || !r->scorer)
    return tn_fail(err, TN_E_NOMEM, "no memory for a run of %lld tokens", (long long)n_gen);
  a.events = tn_ab_rig_events(r);
  tn_status st = tn_setup_open(&a, &r->s, err);
  r->open = st == TN_OK;
  r->open_s = (double)(tn_now_ns() - start) / 1e9;
  return st;
}

void tn_ab_rig_close(tn_ab_rig *r)
{
  if (r->open) tn_setup_close(&r->s);
  free(r->tokens);
  free(r->gap);
  tn_scorer_free(r->scorer);
  *r = (tn_ab_rig){0};
}

tn_status tn_ab_rig_begin(tn_ab_rig *r, const int32_t *prompt, int64_t n_prompt, tn_err *err)
{
  for (tn_seq *s = r->s.engine->first, *next; s; s = next) {
    next = s->next;
    tn_engine_finish(r->s.engine, s, TN_FINISH_CANCELLED, NULL);
  }
  tn_request q = {.prompt = prompt,
                  .n_prompt = n_prompt,
                  .max_new = r->n_gen,
                  .sampling = tn_sampling_default(),
                  .ignore_eog = 1,
                  .no_prefix = 1};
  uint64_t id;
  r->clock_ns = r->first_ns = r->last_ns = 0;
  r->n_prompt = n_prompt;
  r->n_tokens = r->n_first = r->n_gaps = 0;
  r->kv_peak = 0;
  r->over = r->score = false;
  r->failed[0] = '\0';
  return tn_engine_submit(r->s.engine, &q, &id, err);
}

/* Memory in use, and whether something of the text is no longer kept: policies by position drop nothing one by one. */
static void look(tn_ab_rig *r)
{
  uint64_t used = tn_engine_stat(r->s.engine).kv_bytes_used;
  if (used > r->kv_peak) r->kv_peak = used;
  const tn_seq *s = r->s.engine->first;
  for (uint32_t g = 0; s && s->kv && g < s->kv->n_groups; g++) r->hidden |= s->kv->t[g].live < s->kv->t[g].n;
}

tn_status tn_ab_rig_advance(tn_ab_rig *r, int64_t tokens, tn_err *err)
{
  tn_status st = TN_OK;
  while (st == TN_OK && !r->over && r->n_tokens < tokens) {
    r->gave = false;
    r->step_ns = tn_now_ns();
    st = tn_engine_step(r->s.engine, err);
    r->clock_ns += tn_now_ns() - r->step_ns;
    if (st == TN_OK) look(r);
  }
  if (st == TN_OK && r->failed[0]) st = tn_fail(err, TN_E_STATE, "%s", r->failed);
  if (st == TN_OK && r->over && r->n_tokens < r->n_gen)
    st = tn_fail(err, TN_E_STATE, "the run ended after %lld of %lld tokens", (long long)r->n_tokens,
                 (long long)r->n_gen);
  return st;
}

void tn_ab_rig_figures(tn_ab_rig *r, const tn_ab_rig *ref, double x[TN_AB_N_METRICS])
{
  int64_t same = 0;
  if (!ref) ref = r;
  while (same < r->n_gen && r->tokens[same] == ref->tokens[same]) same++;
  x[TN_AB_TTFT] = (double)r->first_ns / 1e9;
  x[TN_AB_PROMPT_TPS] = (double)r->n_prompt / x[TN_AB_TTFT];
  x[TN_AB_KV_BYTES] = (double)r->kv_peak;
  x[TN_AB_MATCH] = same == r->n_gen;
  x[TN_AB_ACCEPT] = (double)(r->n_gen - r->n_first) / (double)(r->n_gaps > 0 ? r->n_gaps : 1);
  if (r->n_gaps < 1) return;
  x[TN_AB_DECODE_TPS] = (double)(r->n_gen - r->n_first) * 1e9 / (double)(r->last_ns - r->first_ns);
  qsort(r->gap, (size_t)r->n_gaps, sizeof *r->gap, tn_stat_by_value);
  x[TN_AB_GAP_P50] = tn_stat_quantile(r->gap, (uint32_t)r->n_gaps, 0.5);
  x[TN_AB_GAP_P99] = tn_stat_quantile(r->gap, (uint32_t)r->n_gaps, 0.99);
}
