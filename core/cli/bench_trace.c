/* bench_trace: see bench_trace.h. */
#include "cli/bench_trace.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "chat/chat.h"
#include "cli/bench_sweep.h"

enum {
  O_TRACE,
  O_POISSON,
  O_RATE,
  O_CONCURRENCY,
  O_REQUESTS,
  O_PROMPT,
  O_GEN,
  O_MAX,
  O_SPEED,
  O_SEED,
  O_TTFT,
  O_ITL,
  O_NULL,
  O_COST,
  O_URL,
  O_KEY,
  O_MODEL
};

static const tn_cli_option options[] = {TN_BENCH_TRACE_OPTIONS};
static_assert(TN_ARRAY_LEN(options) == TN_N_BENCH_TRACE && O_MODEL + 1 == TN_N_BENCH_TRACE, "an index an option");

enum { USUAL_REQUESTS = 1000, USUAL_PROMPT = 512, USUAL_GEN = 128, USUAL_AT_ONCE = 32, SIMULATED_SEQS = 256 };
#define USUAL_BUDGET ((int64_t)1 << 30) /* bytes of KV cache */
#define URL_VOCAB 1000u                 /* ids of random prompts for a server whose vocabulary is not known */
#define US_PER_STEP 10000.0             /* a 7B model in f16 on one A100: 100 tokens a second alone (LMDeploy), */
#define US_PER_ROW 100.0                /* 10,000 prompt tokens a second */

/* ---------------------------------------------------------------- the command line */

static bool positive(const tn_bench_trace *t, const char *name, const char *v, double *out)
{
  if (!tn_cli_real(t->cli, name, v, out)) return false;
  if (*out > 0 && *out <= 1e9) return true;
  return tn_cli_mistake(t->cli, "--%s=%s: want a number above 0, at most 1e9", name, v), false;
}

static bool take_cost(tn_bench_trace *t, const char *v)
{
  char *end, *rest;
  t->cost.us_per_step = strtod(v, &end);
  t->cost.us_per_row = *end == ',' ? strtod(end + 1, &rest) : -1;
  t->simulated_cost = true;
  bool ok = end != v && *end == ',' && rest != end + 1 && *rest == '\0' && t->cost.us_per_step > 0 &&
            t->cost.us_per_step <= 1e9 && t->cost.us_per_row >= 0 && t->cost.us_per_row <= 1e9;
  if (ok) return true;
  return tn_cli_mistake(t->cli, "--step-cost=%s: want microseconds of a step and of a token, as in 10000,100", v),
         false;
}

bool tn_bench_trace_take(tn_bench_trace *t, int i, const char *v)
{
  const char *name = options[i].name;
  if (i != O_TRACE && i != O_POISSON) t->stray = name;
  switch (i) {
    case O_TRACE: t->file = v; return true;
    case O_POISSON: return positive(t, name, v, &t->poisson);
    case O_RATE: return positive(t, name, v, &t->rate);
    case O_CONCURRENCY: return tn_cli_number(t->cli, name, v, 1, 16384, &t->concurrency);
    case O_REQUESTS: return tn_cli_number(t->cli, name, v, 1, 100000000, &t->requests);
    case O_PROMPT: return tn_cli_number(t->cli, name, v, 1, TN_TRACE_MAX_TOKENS, &t->prompt_tokens);
    case O_GEN: return tn_cli_number(t->cli, name, v, 1, TN_TRACE_MAX_TOKENS, &t->gen_tokens);
    case O_MAX: return tn_cli_number(t->cli, name, v, 1, TN_TRACE_MAX_TOKENS, &t->max_tokens);
    case O_SPEED: return positive(t, name, v, &t->speed);
    case O_SEED: return tn_cli_number(t->cli, name, v, 0, INT64_MAX, &t->seed);
    case O_TTFT: return positive(t, name, v, &t->target_ttft);
    case O_ITL: return positive(t, name, v, &t->target_itl);
    case O_NULL: t->null_forward = true; return true;
    case O_COST: return take_cost(t, v);
    case O_URL: t->url = v; return true;
    case O_KEY: t->api_key = v; return true;
    default: t->model = v; return true;
  }
}

bool tn_bench_trace_asked(const tn_bench_trace *t) { return t->file || t->poisson > 0; }

int tn_bench_trace_check(const tn_bench_trace *t)
{
  const char *stray = NULL;
  if (!tn_bench_trace_asked(t))
    return t->stray ? tn_cli_mistake(t->cli, "--%s says something about --trace or --poisson only", t->stray)
                    : TN_EXIT_OK;
  if (t->file && t->poisson > 0) return tn_cli_mistake(t->cli, "--trace and --poisson exclude each other");
  if (t->url && t->null_forward)
    return tn_cli_mistake(t->cli, "--null-forward simulates an engine of this process, not the server of --url");
  if (t->file && t->prompt_tokens) stray = "--prompt-tokens is for --poisson: a trace has prompts of its own";
  if (t->poisson > 0 && t->rate > 0) stray = "--rate is for a trace without arrivals; --poisson has a rate itself";
  if (t->simulated_cost && !t->null_forward)
    stray = "--step-cost is for --null-forward: otherwise steps take their time";
  if (!t->url && (t->api_key || t->model)) stray = "--api-key and --served-model are for --url";
  return stray ? tn_cli_mistake(t->cli, "%s", stray) : TN_EXIT_OK;
}

/* ---------------------------------------------------------------- the requests */

static bool has_text(const tn_trace *t) { return t->n > 0 && t->r[0].text != NULL; }

static tn_status read_trace(tn_bench_trace *t, tn_err *err)
{
  int64_t gen = t->gen_tokens ? t->gen_tokens : USUAL_GEN;
  size_t n = (size_t)t->requests;
  tn_status st =
      t->file ? tn_trace_read(t->file, n, &t->trace, err)
              : tn_trace_poisson(t->poisson, n ? n : USUAL_REQUESTS, t->prompt_tokens ? t->prompt_tokens : USUAL_PROMPT,
                                 gen, (uint64_t)t->seed, &t->trace, err);
  if (st == TN_OK && t->rate > 0 && t->trace.timed)
    st = tn_fail(err, TN_E_ARG, "%s has arrivals of its own: --speed changes their rate, not --rate", t->file);
  if (st == TN_OK && t->gen_tokens && t->file && !has_text(&t->trace))
    st = tn_fail(err, TN_E_ARG, "%s has lengths of its own: --gen-tokens does not apply", t->file);
  if (st == TN_OK && t->rate > 0) st = tn_trace_arrive(&t->trace, t->rate, (uint64_t)t->seed, err);
  if (st == TN_OK && t->speed > 0 && !t->trace.timed)
    st = tn_fail(err, TN_E_ARG, "%s has no arrivals: --speed does not apply without --rate", t->file);
  if (st != TN_OK) return st;
  int64_t at_once = t->concurrency ? t->concurrency : t->trace.timed ? 0 : USUAL_AT_ONCE;
  t->cfg = (tn_replay_cfg){.trace = &t->trace,
                           .speed = t->speed > 0 ? t->speed : 1,
                           .concurrency = (uint32_t)at_once,
                           .most_new = t->max_tokens,
                           .usual_new = gen,
                           .seed = (uint64_t)t->seed};
  return st;
}

/* One prompt as the model's template puts it, or, without a template, as it is. */
static tn_status tokens_of(const tn_setup *s, const tn_chat *chat, tn_trace_request *r, tn_err *err)
{
  size_t n = 0;
  tn_status st;
  if (chat->t) {
    tn_chat_text text = {0};
    json_t *messages = json_pack("[{s:s, s:s}]", "role", "user", "content", r->text);
    st = messages ? tn_chat_prompt(chat, messages, NULL, NULL, true, &text, err)
                  : tn_fail(err, TN_E_NOMEM, "no memory for a prompt");
    if (st == TN_OK) st = tn_chat_tokens(s->tokenizer, &text, &r->tokens, &n, err);
    tn_chat_text_clear(&text);
    json_decref(messages);
  } else {
    st = tn_tokenize(s->tokenizer, r->text, strlen(r->text), TN_TOKENIZE_ADD_SPECIAL, &r->tokens, &n, err);
  }
  r->n_prompt = (int64_t)n;
  return st;
}

static tn_status tokenize(tn_bench_trace *t, const tn_setup *s, tn_err *err)
{
  tn_chat chat = {0};
  tn_err none = tn_err_init();
  if (!has_text(&t->trace) || t->trace.r[0].tokens) return TN_OK;
  tn_status st = tn_chat_open(s->model->gguf, s->tokenizer, NULL, &chat, &none);
  if (st == TN_E_UNSUPPORTED) st = TN_OK;
  if (st != TN_OK) return tn_fail(err, st, "%s", none.msg);
  for (size_t i = 0; st == TN_OK && i < t->trace.n; i++) {
    st = tokens_of(s, &chat, &t->trace.r[i], err);
    if (t->trace.r[i].n_prompt > t->trace.longest_prompt) t->trace.longest_prompt = t->trace.r[i].n_prompt;
  }
  tn_chat_close(&chat);
  return st;
}

/* ---------------------------------------------------------------- progress */

typedef struct shown {
  uint64_t start;
  bool tty;
} shown;

static bool on_progress(void *ctx, const tn_replay_state *s)
{
  const shown *x = ctx;
  double spent = (double)(tn_now_ns() - x->start) * 1e-9;
  if (x->tty && spent > 1 && s->ended > 0)
    fprintf(stderr, "\r%zu of %zu requests, %zu under way, %.0f s of load, %.0f s left   ", s->ended, s->n,
            s->under_way, s->seconds, spent / (double)s->ended * (double)(s->n - s->ended));
  return !tn_cli_interrupted();
}

static void begin_progress(tn_bench_trace *t, shown *x)
{
  *x = (shown){tn_now_ns(), isatty(STDERR_FILENO) == 1};
  t->cfg.progress = on_progress;
  t->cfg.ctx = x;
}

static void end_progress(const shown *x)
{
  if (x->tty) fprintf(stderr, "\r%78s\r", "");
}

/* ---------------------------------------------------------------- an engine of this process */

/* What the user has not set: a context for the longest request, seats for those at once, memory within bounds. */
static bool set_engine(const tn_bench_trace *t, const tn_setup *look, tn_engine_args *e)
{
  const tn_config_entry *const *from = look->host.engine.from;
  int64_t ctx = tn_replay_ctx(&t->cfg), seats = t->cfg.concurrency;
  if (seats == 0) seats = t->null_forward ? SIMULATED_SEQS : USUAL_AT_ONCE;
  if (seats > 1024) seats = 1024;
  return (from[TN_ENGINE_CTX] || tn_engine_args_set(e, "the longest request,", "ctx", ctx)) &&
         (from[TN_ENGINE_MAX_SEQS] || tn_engine_args_set(e, "requests at once,", "max_seqs", seats)) &&
         (from[TN_ENGINE_KV_BUDGET] || tn_engine_args_set(e, "a replay's memory,", "kv_budget", USUAL_BUDGET));
}

static int look_first(tn_bench_trace *t, tn_engine_args *e)
{
  tn_setup look;
  tn_err err = tn_err_init();
  tn_setup_args no_engine = {.no_engine = true, .null_forward = t->null_forward};
  int code = tn_engine_args_open(e, &no_engine, &look);
  if (code != TN_EXIT_OK) return code;
  if (tokenize(t, &look, &err) != TN_OK)
    code = tn_cli_fail(t->cli, &err);
  else if (!set_engine(t, &look, e))
    code = TN_EXIT_FAIL;
  tn_setup_close(&look);
  return code;
}

static int report(tn_bench_trace *t, tn_bench_served *r, const tn_serving *s, tn_bench_out *out, uint32_t n_results)
{
  tn_err err = tn_err_init();
  if (tn_serving_sum(s, t->target_ttft, t->target_itl, &r->f, &err) != TN_OK) return tn_cli_fail(t->cli, &err);
  r->t = t;
  r->partial = r->f.left > 0;
  int code = tn_bench_served_out(r, out->format, out->n++, n_results > 1);
  if (r->f.failed > 0)
    fprintf(stderr, "warning: %llu requests failed, the first: %s\n", (unsigned long long)r->f.failed, s->failed.msg);
  return code == TN_EXIT_OK && r->partial ? 130 : code;
}

static int run_setup(tn_bench_trace *t, tn_replay *replay, const tn_setup *s, tn_bench_out *out, uint32_t n_results)
{
  shown x;
  tn_serving served = {0};
  tn_replay_result more;
  tn_err err = tn_err_init();
  begin_progress(t, &x);
  tn_status st = tn_replay_run(replay, s->engine, &t->cfg, &served, &more, &err);
  end_progress(&x);
  tn_bench_served r = {.s = s, .variant = out->variant, .more = &more};
  int code = st == TN_OK ? report(t, &r, &served, out, n_results) : tn_cli_fail(t->cli, &err);
  tn_serving_release(&served);
  return code;
}

static int run_variant(tn_bench_trace *t, const tn_engine_args *all, uint32_t variant, tn_bench_out *out)
{
  tn_engine_args e;
  char name[128];
  tn_setup s;
  uint32_t n = tn_bench_sweep_n(all);
  if (!tn_bench_sweep_at(all, variant, &e, name)) return TN_EXIT_FAIL;
  out->variant = *name ? name : NULL;
  tn_replay *replay = tn_replay_new(t->null_forward ? &t->cost : NULL);
  int code = replay ? look_first(t, &e) : TN_EXIT_FAIL;
  if (code == TN_EXIT_OK) {
    tn_setup_args more = {.events = tn_replay_events(replay),
                          .clock = tn_replay_now,
                          .clock_ctx = replay,
                          .null_forward = t->null_forward};
    code = tn_engine_args_open(&e, &more, &s);
    if (code == TN_EXIT_OK) {
      if (e.verbose) tn_engine_print_memory(stderr, &s, true);
      code = run_setup(t, replay, &s, out, n);
      if (e.verbose) tn_engine_print_counters(stderr, s.engine);
      tn_setup_close(&s);
    }
  }
  out->variant = NULL;
  tn_replay_free(replay);
  tn_engine_args_release(&e);
  return code;
}

/* ---------------------------------------------------------------- a server */

static int run_url(tn_bench_trace *t, tn_bench_out *out)
{
  tn_client *c;
  char *model = t->model ? tn_strdup(t->model) : NULL;
  shown x;
  tn_serving served = {0};
  tn_err err = tn_err_init();
  tn_client_cfg cfg = {.url = t->url, .api_key = t->api_key};
  tn_status st = tn_client_open(&cfg, &c, &err);
  if (st == TN_OK && !model) st = tn_client_model(c, &model, &err);
  begin_progress(t, &x);
  if (st == TN_OK) st = tn_replay_url(c, model, URL_VOCAB, &t->cfg, &served, &err);
  end_progress(&x);
  tn_bench_served r = {.server = c ? tn_client_url(c) : "", .model = model};
  int code = st == TN_OK ? report(t, &r, &served, out, 1) : tn_cli_fail(t->cli, &err);
  tn_serving_release(&served);
  tn_client_close(c);
  free(model);
  return code;
}

int tn_bench_trace_run(tn_bench_trace *t, const tn_engine_args *e, tn_bench_out *out)
{
  tn_err err = tn_err_init();
  if (!t->simulated_cost) t->cost = (tn_replay_cost){US_PER_STEP, US_PER_ROW};
  int code = read_trace(t, &err) == TN_OK ? TN_EXIT_OK : tn_cli_fail(t->cli, &err);
  if (code == TN_EXIT_OK && t->url) code = run_url(t, out);
  for (uint32_t v = 0; code == TN_EXIT_OK && !t->url && v < tn_bench_sweep_n(e); v++) code = run_variant(t, e, v, out);
  if (out->format == TN_BENCH_JSON && out->n > 0 && !t->url && tn_bench_sweep_n(e) > 1) fputs("\n]\n", stdout);
  tn_trace_free(&t->trace);
  return tn_cli_done("bench", code);
}
