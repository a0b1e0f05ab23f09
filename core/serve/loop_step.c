/* loop_step: what the engine thread does between and in steps: jobs become sequences, tokens become answers. */
#include <stdlib.h>
#include <string.h>

#include "serve/loop_int.h"
#include "sha256.h"

static double s_of(uint64_t ns) { return (double)ns / 1e9; }

/* Goes on from what the request's slot holds, when that is how its prompt begins. */
static bool submit_on_slot(tn_loop *l, tn_reply *c, const tn_request *r)
{
  const tn_job *j = c->job;
  uint8_t *bytes;
  size_t n;
  if (j->gen.slot < 0 || c->index > 0 || r->score) return false;
  size_t known = tn_slots_match(l->slots, j->gen.slot, j->gen.salt, r->prompt, (size_t)r->n_prompt, &bytes, &n);
  if (known == 0) return false;
  tn_request rest = *r;
  rest.prompt += known;
  rest.n_prompt -= (int64_t)known;
  tn_err err = tn_err_init();
  tn_status st = tn_engine_restore(l->setup->engine, bytes, n, tn_composition_fingerprint(l->setup->composition), &rest,
                                   &c->seq, &err);
  free(bytes);
  c->submitted = st == TN_OK;
  return c->submitted; /* what cannot be restored is run from the beginning */
}

static void keep_slot(tn_loop *l, const tn_reply *c, const tn_seq *s)
{
  const tn_job *j = c->job;
  uint8_t *bytes;
  size_t n;
  if (j->gen.slot < 0 || c->index > 0 || s->n_done < 1 || s->n_done > s->n_tok) return;
  tn_status st =
      tn_engine_save(l->setup->engine, s->id, tn_composition_fingerprint(l->setup->composition), &bytes, &n, NULL);
  if (st == TN_OK) tn_slots_put(l->slots, j->gen.slot, j->gen.salt, s->tokens, (size_t)s->n_done, bytes, n);
}

/* Requests of another salt never find this one's entries. */
static void set_salt(tn_request *r, const char *salt)
{
  uint8_t digest[32];
  tn_sha256 hash;
  if (!salt || !salt[0]) return;
  tn_sha256_init(&hash);
  tn_sha256_update(&hash, salt, strlen(salt));
  tn_sha256_final(&hash, digest);
  memcpy(r->cache_salt, digest, sizeof r->cache_salt);
}

static bool submit(tn_loop *l, tn_reply *c)
{
  tn_job *j = c->job;
  const tn_prompt *p = &j->prompts[c->prompt];
  tn_request r = {.prompt = p->ids,
                  .n_prompt = (int64_t)p->n,
                  .max_new = j->gen.max_new < 0 ? TN_UNTIL_FULL : j->gen.max_new,
                  .sampling = j->gen.sampling,
                  .key = c->key,
                  .n_logprobs = j->gen.logprobs ? (j->gen.top > 0 ? j->gen.top : 1) : 0,
                  .score = c->prompt_entries != NULL,
                  .stop = j->gen.stop_ids,
                  .n_stop = j->gen.n_stop_ids,
                  .priority = j->gen.priority,
                  .ignore_eog = j->gen.ignore_eos,
                  .no_prefix = j->gen.no_prompt_cache,
                  .user = c};
  set_salt(&r, j->gen.salt);
  tn_err err = tn_err_init();
  tn_fault f;
  if (submit_on_slot(l, c, &r)) return true;
  tn_status st = tn_engine_submit(l->setup->engine, &r, &c->seq, &err);
  if (st == TN_OK) {
    c->submitted = true;
    return true;
  }
  tn_fault_engine(&f, &err);
  int64_t ctx = tn_engine_stat(l->setup->engine).ctx, need = (int64_t)p->n + (r.max_new > 0 ? r.max_new : 0);
  if (st == TN_E_NEVER && need > ctx) {
    tn_fault_field(&f, "messages", "the request exceeds the available context size: %s", err.msg);
    strcpy(f.param, j->gen.api == TN_API_CHAT ? "messages" : "prompt");
    f.type = "exceed_context_size_error";
    f.code = "context_length_exceeded";
    f.n_prompt = (int64_t)p->n;
    f.n_ctx = ctx;
  }
  tn_job_fail(j, &f);
  return false;
}

/* The first choice of every prompt; the others follow once it has a token, so that they find its prompt in the cache. */
static void begin(tn_loop *l, tn_job *j)
{
  tn_fault f;
  if (!tn_loop_set_options(l, j->gen.options, &f)) tn_job_fail(j, &f);
  for (uint32_t i = 0; i < j->n_choices && j->fault.status == 0; i += j->gen.n) submit(l, &j->choices[i]);
  if (j->fault.status == 0) tn_job_begin(j);
}

static void follow(tn_loop *l, tn_job *j)
{
  for (uint32_t i = 0; i < j->n_choices && j->fault.status == 0; i++) {
    const tn_reply *first = &j->choices[i - i % j->gen.n];
    if (!j->choices[i].submitted && (first->begun || first->closed)) submit(l, &j->choices[i]);
  }
}

void tn_loop_admit(tn_loop *l, tn_job *incoming)
{
  while (incoming) {
    tn_job *j = incoming, **at = &l->active;
    incoming = j->next;
    j->next = NULL;
    while (*at) at = &(*at)->next;
    *at = j;
    tn_metrics_observe(l->cfg.metrics, TN_HIST_PARAMS_N, j->gen.n);
    if (j->gen.max_new >= 0) tn_metrics_observe(l->cfg.metrics, TN_HIST_PARAMS_MAX_TOKENS, (double)j->gen.max_new);
    if (!tn_outbox_left(j->out)) begin(l, j);
  }
}

static void cancel(tn_loop *l, tn_job *j)
{
  for (uint32_t i = 0; i < j->n_choices; i++) {
    tn_reply *c = &j->choices[i];
    if (c->closed) continue;
    if (c->submitted)
      tn_engine_cancel(l->setup->engine, c->seq);
    else
      tn_job_close(c, "stop");
  }
}

/* Is the job to end? Then its sequences are cancelled; true once none of them is left. */
static bool over(tn_loop *l, tn_job *j, bool cancel_all)
{
  tn_fault f;
  bool left = tn_outbox_left(j->out);
  if (!left && j->fault.status == 0) {
    if (cancel_all) tn_fault_status(&f, 503, "the server is shutting down");
    if (!cancel_all && tn_now_ns() > j->deadline_ns)
      tn_fault_status(&f, 504, "the request took longer than %.0f s", s_of(l->cfg.timeout_ns));
    else if (!cancel_all)
      f.status = 0;
    if (f.status != 0 && j->n_open > 0) tn_job_fail(j, &f);
  }
  if (left || j->fault.status != 0)
    cancel(l, j);
  else
    follow(l, j);
  return j->n_open == 0;
}

static void retire(tn_loop *l, tn_job *j)
{
  uint32_t why = j->fault.status != 0 ? TN_COUNT_ERROR : TN_COUNT_STOP;
  bool answered = false;
  for (uint32_t i = 0; i < j->n_choices; i++) {
    answered = answered || j->choices[i].begun;
    if (why == TN_COUNT_STOP && j->choices[i].finish && !strcmp(j->choices[i].finish, "length")) why = TN_COUNT_LENGTH;
  }
  if (j->fault.status == 0 && !j->delivered) why = TN_COUNT_ABORT;
  tn_metrics_add(l->cfg.metrics, why, 1);
  tn_outbox_end(j->out);
  if (!answered) tn_loop_answered(l);
  tn_job_free(j);
  pthread_mutex_lock(&l->lock);
  l->n_jobs--;
  pthread_mutex_unlock(&l->lock);
}

void tn_loop_look_after(tn_loop *l, bool cancel_all)
{
  for (tn_job **at = &l->active; *at;) {
    tn_job *j = *at;
    if (!over(l, j, cancel_all)) {
      at = &j->next;
      continue;
    }
    *at = j->next;
    retire(l, j);
  }
}

void tn_loop_step(tn_loop *l)
{
  tn_engine *e = l->setup->engine;
  if (tn_engine_idle(e)) return;
  tn_err err = tn_err_init();
  uint64_t rows = tn_engine_stat(e).rows, start = tn_now_ns();
  tn_engine_step(e, &err); /* a failure has ended its sequences, each with the reason */
  tn_metrics_add(l->cfg.metrics, TN_COUNT_STEP_NS, tn_now_ns() - start);
  rows = tn_engine_stat(e).rows - rows;
  if (rows > 0) tn_metrics_observe(l->cfg.metrics, TN_HIST_ITERATION_TOKENS, (double)rows);
}

void tn_loop_publish(tn_loop *l)
{
  tn_loop_figures f = {.engine = tn_engine_stat(l->setup->engine)};
  f.n_counters = tn_engine_counters(l->setup->engine, f.counters, TN_MAX_FIGURES);
  if (f.n_counters > TN_MAX_FIGURES) f.n_counters = TN_MAX_FIGURES;
  for (const tn_job *j = l->active; j; j = j->next)
    for (uint32_t i = 0; i < j->n_choices; i++) f.n_running += j->choices[i].begun && !j->choices[i].closed;
  pthread_mutex_lock(&l->lock);
  l->figures = f;
  pthread_mutex_unlock(&l->lock);
}

/* ---------------------------------------------------------------- events */

static bool ends_answer(const tn_job *j, const tn_tokenizer *t, int32_t id)
{
  if (!j->gen.ignore_eos && tn_token_is_eog(t, id)) return true;
  for (uint32_t i = 0; i < j->gen.n_stop_ids; i++)
    if (j->gen.stop_ids[i] == id) return !j->gen.include_stop;
  return false;
}

static void on_token(void *ctx, const tn_token_event *e)
{
  tn_loop *l = ctx;
  tn_reply *c = e->user;
  tn_job *j = c->job;
  uint64_t before = c->last_ns;
  bool first_of_job = true;
  for (uint32_t i = 0; i < j->n_choices; i++) first_of_job = first_of_job && !j->choices[i].begun;
  tn_job_token t = {.id = e->token,
                    .silent = ends_answer(j, l->setup->tokenizer, e->token),
                    .logprob = e->logprob,
                    .n_top = j->gen.top < e->n_top ? j->gen.top : e->n_top,
                    .top = e->top,
                    .top_logprob = e->top_logprob};
  if (tn_job_take(c, &t)) tn_engine_cancel(l->setup->engine, e->seq);
  tn_metrics_add(l->cfg.metrics, TN_COUNT_GENERATION_TOKENS, 1);
  if (c->n_new > 1) {
    tn_metrics_observe(l->cfg.metrics, TN_HIST_ITL, s_of(c->last_ns - before));
  } else {
    const tn_seq *s = tn_engine_seq(l->setup->engine, e->seq);
    if (s) c->n_cached = (uint64_t)s->n_cached;
    tn_metrics_add(l->cfg.metrics, TN_COUNT_PROMPT_TOKENS, j->prompts[c->prompt].n);
    tn_metrics_add(l->cfg.metrics, TN_COUNT_CACHED_TOKENS, c->n_cached);
    tn_metrics_observe(l->cfg.metrics, TN_HIST_TTFT, s_of(c->first_ns - j->arrival_ns));
  }
  if (first_of_job) tn_loop_answered(l);
}

static void on_logits(void *ctx, uint64_t seq, void *user, int64_t pos, const float *row)
{
  tn_loop *l = ctx;
  (void)seq;
  tn_job_logits(user, pos, row, l->setup->model->shape.n_vocab);
}

static void observe_end(tn_loop *l, const tn_reply *c, const tn_seq *s)
{
  tn_metrics *m = l->cfg.metrics;
  const tn_job *j = c->job;
  if (c->n_new == 0) return;
  double decode = s_of(c->last_ns - c->first_ns);
  tn_metrics_observe(m, TN_HIST_E2E, s_of(c->last_ns - j->arrival_ns));
  tn_metrics_observe(m, TN_HIST_QUEUE, s_of(s->arrival_ns - j->arrival_ns));
  tn_metrics_observe(m, TN_HIST_INFERENCE, s_of(c->last_ns - s->arrival_ns));
  tn_metrics_observe(m, TN_HIST_PREFILL, s_of(c->first_ns - s->arrival_ns));
  tn_metrics_observe(m, TN_HIST_DECODE, decode);
  if (c->n_new > 1) tn_metrics_observe(m, TN_HIST_TPOT, decode / (double)(c->n_new - 1));
  tn_metrics_observe(m, TN_HIST_PROMPT_TOKENS, (double)j->prompts[c->prompt].n);
  tn_metrics_observe(m, TN_HIST_GENERATION_TOKENS, (double)c->n_new);
  tn_metrics_add(m, TN_COUNT_DRAFTS, s->n_verify);
  tn_metrics_add(m, TN_COUNT_DRAFT_TOKENS, s->n_drafted);
  tn_metrics_add(m, TN_COUNT_ACCEPTED_TOKENS, s->n_accepted);
}

/* The row behind an embedding's prompt. */
static void keep_hidden(tn_loop *l, tn_reply *c, const tn_seq *s)
{
  tn_err err = tn_err_init();
  tn_fault f;
  size_t n = l->setup->model->shape.d_model;
  float *row = tn_zalloc(n, sizeof *row);
  tn_status st = row ? tn_engine_hidden(l->setup->engine, s, row, &err) : tn_fail(&err, TN_E_NOMEM, "no memory");
  if (st == TN_OK) tn_job_hidden(c, row, n);
  free(row);
  if (st == TN_OK && c->vector) return;
  tn_fault_engine(&f, &err);
  tn_job_fail(c->job, &f);
}

static void on_finish(void *ctx, const tn_seq *s, uint32_t why, const char *msg)
{
  tn_loop *l = ctx;
  tn_reply *c = s->req.user;
  tn_fault f;
  c->n_drafted = s->n_drafted;
  c->n_accepted = s->n_accepted;
  observe_end(l, c, s);
  if (why != TN_FINISH_ERROR) keep_slot(l, c, s);
  if (why == TN_FINISH_ERROR) {
    tn_fault_status(&f, 500, "%s", msg && *msg ? msg : "the engine failed");
    tn_job_fail(c->job, &f);
  }
  if (c->job->gen.api == TN_API_EMBEDDING && why == TN_FINISH_LENGTH) keep_hidden(l, c, s);
  tn_job_close(c, why == TN_FINISH_LENGTH ? "length" : "stop");
}

tn_events tn_loop_events(tn_loop *l)
{
  return (tn_events){.ctx = l, .token = on_token, .logits = on_logits, .finish = on_finish};
}
