/* scorer: see scorer.h. */
#include "scorer.h"

#include <stdio.h>
#include <stdlib.h>

struct tn_scorer {
  tn_engine *engine; /* of the text that runs, else NULL */
  tn_score text;     /* row NULL: a continuation */
  uint64_t seq;
  int32_t *out; /* of a continuation */
  int64_t n_out;
  tn_err err;
  tn_status status; /* of the callback, or of the sequence */
};

tn_scorer *tn_scorer_new(void) { return tn_zalloc(1, sizeof(tn_scorer)); }

void tn_scorer_free(tn_scorer *s) { free(s); }

static void on_logits(void *ctx, uint64_t seq, void *user, int64_t pos, const float *row)
{
  tn_scorer *s = ctx;
  (void)seq, (void)user;
  if (s->status != TN_OK || !s->text.row || pos < s->text.first || pos + 1 >= s->text.n) return;
  s->status = s->text.row(s->text.ctx, pos, row, &s->err);
}

static void on_token(void *ctx, const tn_token_event *e)
{
  tn_scorer *s = ctx;
  if (s->out) s->out[s->n_out++] = e->token;
}

static void on_finish(void *ctx, const tn_seq *seq, uint32_t why, const char *msg)
{
  tn_scorer *s = ctx;
  (void)seq;
  if (why == TN_FINISH_ERROR && s->status == TN_OK)
    s->status = tn_fail(&s->err, TN_E_INTERNAL, "the text failed: %s", msg ? msg : "the engine gives no reason");
}

tn_events tn_scorer_events(tn_scorer *s)
{
  return (tn_events){.ctx = s, .token = on_token, .logits = on_logits, .finish = on_finish};
}

static tn_status submit(tn_scorer *s, tn_engine *e, const tn_request *q, tn_err *err)
{
  if (s->engine) return tn_fail(err, TN_E_STATE, "a text is to be scored while another one is not done");
  s->status = TN_OK;
  s->err = tn_err_init();
  tn_status st = tn_engine_submit(e, q, &s->seq, err);
  if (st == TN_OK) s->engine = e;
  return st;
}

tn_status tn_scorer_begin(tn_scorer *s, tn_engine *e, const tn_score *t, tn_err *err)
{
  if (t->n < 2 || t->first < 0 || t->first > t->n - 2)
    return tn_fail(err, TN_E_ARG, "rows from %lld on of a text of %lld tokens: there is none to score",
                   (long long)t->first, (long long)t->n);
  if (t->decode && t->first < 1)
    return tn_fail(err, TN_E_ARG, "one token at a time from the first one on: there is no prompt");
  s->text = *t;
  s->out = NULL;
  tn_request q = {.prompt = t->tokens,
                  .n_prompt = t->n,
                  .sampling = tn_sampling_default(),
                  .score = 1,
                  .score_from = t->first,
                  .no_prefix = 1};
  if (t->decode) {
    q.n_prompt = t->first;
    q.forced = t->tokens + t->first;
    q.n_forced = q.max_new = t->n - t->first;
  }
  return submit(s, e, &q, err);
}

tn_status tn_scorer_step(tn_scorer *s, tn_err *err)
{
  if (!s->engine) return tn_fail(err, TN_E_STATE, "there is no text to score");
  tn_status st = tn_engine_step(s->engine, err);
  if (st == TN_OK && s->status != TN_OK) st = tn_fail(err, s->status, "%s", s->err.msg);
  if (st != TN_OK) tn_scorer_stop(s);
  if (st == TN_OK && tn_engine_idle(s->engine)) s->engine = NULL;
  return st;
}

void tn_scorer_stop(tn_scorer *s)
{
  tn_err ignored = tn_err_init(); /* a sequence is cancelled before anything else in a step */
  if (!s->engine) return;
  s->text.row = NULL;
  tn_engine_cancel(s->engine, s->seq);
  if (!tn_engine_idle(s->engine)) (void)tn_engine_step(s->engine, &ignored);
  s->engine = NULL;
}

bool tn_scorer_busy(const tn_scorer *s) { return s->engine != NULL; }

tn_status tn_scorer_run(tn_scorer *s, tn_engine *e, const tn_score *t, tn_err *err)
{
  tn_status st = tn_scorer_begin(s, e, t, err);
  while (st == TN_OK && tn_scorer_busy(s)) st = tn_scorer_step(s, err);
  return st;
}

tn_status tn_scorer_generate(tn_scorer *s, tn_engine *e, const int32_t *prompt, int64_t n_prompt, int64_t max_new,
                             int32_t *out, int64_t *n_out, tn_err *err)
{
  tn_request q = {
      .prompt = prompt, .n_prompt = n_prompt, .max_new = max_new, .sampling = tn_sampling_default(), .no_prefix = 1};
  s->text = (tn_score){0};
  s->out = out;
  s->n_out = 0;
  tn_status st = submit(s, e, &q, err);
  while (st == TN_OK && tn_scorer_busy(s)) st = tn_scorer_step(s, err);
  s->out = NULL;
  *n_out = s->n_out;
  return st;
}
