/* run_session: the work of `tenon run`: prompt in, text out as it comes, then the timing lines or the JSON. */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "cli/run_int.h"
#include "utf8.h"

#define MAX_PIECE 65536u

typedef struct session {
  const run_args *a;
  tn_setup setup;
  tn_utf8_stream stream;
  char *piece, *shown;    /* [MAX_PIECE] and what feed makes of it */
  json_t *ids, *logprobs; /* of the answer */
  char *text;             /* of the answer, for JSON */
  size_t n_text, cap_text;
  uint64_t start_ns, first_ns, last_ns, n_new;
  uint64_t n_drafted, n_accepted, n_dropped, n_demoted;
  int64_t n_prompt, n_cached;
  uint32_t why;
  char error[512];
  uint64_t seq;
} session;

static void keep_text(session *s, const char *p, size_t n)
{
  if (s->n_text + n + 1 > s->cap_text) {
    size_t cap = 2 * (s->n_text + n) + 256;
    char *grown = realloc(s->text, cap);
    if (!grown) {
      snprintf(s->error, sizeof s->error, "no memory for the text of the answer");
      return;
    }
    s->text = grown;
    s->cap_text = cap;
  }
  memcpy(s->text + s->n_text, p, n);
  s->n_text += n;
}

static void show(session *s, const char *p, size_t n)
{
  if (n == 0) return;
  if (s->a->engine.json) {
    keep_text(s, p, n);
    return;
  }
  fwrite(p, 1, n, stdout);
  fflush(stdout);
}

static void on_token(void *ctx, const tn_token_event *e)
{
  session *s = ctx;
  s->last_ns = tn_now_ns();
  if (s->n_new++ == 0) s->first_ns = s->last_ns;
  if (!tn_token_is_eog(s->setup.tokenizer, e->token)) {
    size_t n = tn_token_piece(s->setup.tokenizer, e->token, 0, s->piece, MAX_PIECE);
    if (n > MAX_PIECE) n = MAX_PIECE;
    show(s, s->shown, tn_utf8_feed(&s->stream, s->piece, n, s->shown));
  }
  if (s->ids) json_array_append_new(s->ids, json_integer(e->token));
  if (s->logprobs) {
    json_t *top = json_array();
    for (uint32_t i = 0; i < e->n_top; i++)
      json_array_append_new(top, json_pack("{s:i, s:f}", "id", e->top[i], "logprob", e->top_logprob[i]));
    json_array_append_new(s->logprobs, json_pack("{s:i, s:f, s:o}", "id", e->token, "logprob", e->logprob, "top", top));
  }
  if (tn_cli_interrupted()) tn_engine_cancel(s->setup.engine, e->seq);
}

static void save_session(session *s, const tn_seq *seq, uint32_t why)
{
  tn_run_file file = {0};
  tn_err err = tn_err_init();
  tn_status st = tn_engine_save(s->setup.engine, seq->id, tn_composition_fingerprint(s->setup.composition), &file.bytes,
                                &file.n, &err);
  if (st == TN_OK) {
    file.pending = seq->tokens + seq->n_done;
    file.n_pending = (uint32_t)(seq->n_tok - seq->n_done);
    if (why == TN_FINISH_STOP && file.n_pending > 0) file.n_pending--; /* what follows is a new turn */
    st = tn_run_file_write(s->a->save, &file, &err);
  }
  if (st != TN_OK) snprintf(s->error, sizeof s->error, "%s", err.msg);
  free(file.bytes);
}

static void on_finish(void *ctx, const tn_seq *seq, uint32_t why, const char *msg)
{
  session *s = ctx;
  s->why = why;
  s->n_drafted = seq->n_drafted;
  s->n_accepted = seq->n_accepted;
  s->n_dropped = seq->n_dropped;
  s->n_demoted = seq->n_demoted;
  s->n_cached = seq->n_cached;
  s->n_prompt = seq->n_prompt;
  if (s->n_new == 0 && why == TN_FINISH_LENGTH) s->first_ns = s->last_ns = s->start_ns + seq->prompt_ns; /* -n 0 */
  if (msg)
    snprintf(s->error, sizeof s->error, "%s", msg);
  else if (s->a->save && !s->error[0])
    save_session(s, seq, why);
}

static uint64_t choose_seed(const session *s)
{
  uint64_t seed = s->a->seed_given ? (uint64_t)s->a->seed : s->setup.opts.seed;
  if (seed != 0 || s->a->sampling.temperature == 0) return seed; /* greedy draws nothing */
  if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != sizeof seed) seed = tn_now_ns();
  return seed & INT32_MAX;
}

static tn_status begin(session *s, const tn_request *r, const tn_run_file *saved, tn_err *err)
{
  if (!s->a->load) return tn_engine_submit(s->setup.engine, r, &s->seq, err);
  tn_status st = tn_engine_restore(s->setup.engine, saved->bytes, saved->n,
                                   tn_composition_fingerprint(s->setup.composition), r, &s->seq, err);
  if (st != TN_OK) tn_err_prefix(err, "--load %s", s->a->load);
  return st;
}

static tn_status generate(session *s, const tn_run_prompt *p, uint64_t seed, tn_err *err)
{
  tn_request r = {.prompt = p->ids,
                  .n_prompt = (int64_t)p->n,
                  .max_new = s->a->n_predict < 0 ? TN_UNTIL_FULL : s->a->n_predict,
                  .sampling = s->a->sampling,
                  .key = seed,
                  .n_logprobs = s->a->n_logprobs,
                  .ignore_eog = s->a->ignore_eos};
  s->start_ns = tn_now_ns();
  tn_status st = begin(s, &r, &p->saved, err);
  while (st == TN_OK && !tn_engine_idle(s->setup.engine)) {
    st = tn_engine_step(s->setup.engine, err);
    if (tn_cli_interrupted()) tn_engine_cancel(s->setup.engine, s->seq);
  }
  char tail[4];
  show(s, tail, tn_utf8_flush(&s->stream, tail));
  return st;
}

static const char *why_word(uint32_t why)
{
  static const char *const words[] = {"none", "stop", "length", "cancelled", "error"};
  return why < TN_ARRAY_LEN(words) ? words[why] : "unknown";
}

static double ms(uint64_t ns) { return (double)ns / 1e6; }

static double per_second(uint64_t n, uint64_t ns) { return ns ? (double)n * 1e9 / (double)ns : 0; }

static void print_times(const session *s)
{
  uint64_t run = (uint64_t)(s->n_prompt - s->n_cached),
           prompt = s->first_ns > s->start_ns ? s->first_ns - s->start_ns : 0;
  uint64_t eval = s->last_ns > s->first_ns ? s->last_ns - s->first_ns : 0, n = s->n_new > 1 ? s->n_new - 1 : 0;
  fprintf(stderr, "prompt eval time = %10.2f ms / %5llu tokens (%8.2f ms per token, %8.2f tokens per second)\n",
          ms(prompt), (unsigned long long)run, run ? ms(prompt) / (double)run : 0, per_second(run, prompt));
  fprintf(stderr, "       eval time = %10.2f ms / %5llu tokens (%8.2f ms per token, %8.2f tokens per second)\n",
          ms(eval), (unsigned long long)n, n ? ms(eval) / (double)n : 0, per_second(n, eval));
  fprintf(stderr, "      total time = %10.2f ms / %5llu tokens\n", ms(prompt + eval),
          (unsigned long long)run + s->n_new);
  if (s->n_drafted > 0)
    fprintf(stderr, "draft acceptance rate = %.5f (%5llu accepted / %5llu generated)\n",
            (double)s->n_accepted / (double)s->n_drafted, (unsigned long long)s->n_accepted,
            (unsigned long long)s->n_drafted);
  char print[TN_FINGERPRINT_HEX + 1];
  tn_composition_short(s->setup.composition, print);
  fprintf(stderr, "     composition = %s\n", print);
  if (s->n_dropped > 0) fprintf(stderr, "eviction dropped %llu cache entries\n", (unsigned long long)s->n_dropped);
  if (s->n_demoted > 0)
    fprintf(stderr, "eviction demoted %llu cache entries to fewer bits\n", (unsigned long long)s->n_demoted);
}

static int print_json(session *s, const int32_t *ids, size_t n, uint64_t seed)
{
  char print[TN_FINGERPRINT_HEX + 1];
  tn_composition_short(s->setup.composition, print);
  json_t *prompt = json_array();
  for (size_t i = 0; i < n; i++) json_array_append_new(prompt, json_integer(ids[i]));
  uint64_t first = s->first_ns > s->start_ns ? s->first_ns - s->start_ns : 0,
           eval = s->last_ns > s->first_ns ? s->last_ns - s->first_ns : 0;
  json_t *text = json_stringn(s->text ? s->text : "", s->n_text);
  json_t *timings =
      json_pack("{s:I, s:f, s:f, s:I, s:f, s:f, s:I, s:I, s:I}", "prompt_n", (json_int_t)(s->n_prompt - s->n_cached),
                "prompt_ms", ms(first), "prompt_per_second", per_second((uint64_t)(s->n_prompt - s->n_cached), first),
                "predicted_n", (json_int_t)s->n_new, "predicted_ms", ms(eval), "predicted_per_second",
                per_second(s->n_new > 1 ? s->n_new - 1 : 0, eval), "draft_n", (json_int_t)s->n_drafted,
                "draft_n_accepted", (json_int_t)s->n_accepted, "cached_n", (json_int_t)s->n_cached);
  json_t *j = json_pack("{s:o, s:o, s:o, s:s, s:I, s:s, s:o, s:o, s:I, s:I}", "text", text, "prompt_ids", prompt, "ids",
                        json_incref(s->ids), "finish_reason", why_word(s->why), "seed", (json_int_t)seed, "fingerprint",
                        print, "timings", timings, "counters", tn_engine_counters_json(s->setup.engine), "kv_dropped",
                        (json_int_t)s->n_dropped, "kv_demoted", (json_int_t)s->n_demoted);
  if (j && s->logprobs) json_object_set(j, "logprobs", s->logprobs);
  return tn_cli_json("run", j);
}

static int report(session *s, const int32_t *ids, size_t n, uint64_t seed)
{
  if (s->a->engine.json) return print_json(s, ids, n, seed);
  fputs("\n", stdout);
  fflush(stdout);
  fputs("\n", stderr);
  if (s->a->sampling.temperature > 0) fprintf(stderr, "seed %llu\n", (unsigned long long)seed);
  print_times(s);
  if (s->a->engine.verbose) tn_engine_print_counters(stderr, s->setup.engine);
  return tn_cli_done("run", TN_EXIT_OK);
}

/* Text and saved tokens as the ids to run, and whether they fit. */
static tn_status prepare(const session *s, tn_run_prompt *p, tn_err *err)
{
  tn_status st = tn_run_prompt_read(s->a, s->setup.tokenizer, p, err);
  int64_t ctx = tn_engine_stat(s->setup.engine).ctx, n = (int64_t)p->n, new = s->a->n_predict;
  if (st != TN_OK || s->a->load || n + (new < 0 ? 0 : new) <= ctx) return st;
  return tn_fail(err, TN_E_NEVER,
                 "the prompt has %lld tokens and -n %lld asks for as many more, but [engine] ctx is %lld: lower -n, "
                 "shorten the prompt, or raise ctx",
                 (long long)n, (long long)new, (long long)ctx);
}

static int run_prompt(session *s)
{
  tn_run_prompt p = {0};
  tn_err err = tn_err_init();
  tn_status st = prepare(s, &p, &err);
  uint64_t seed = choose_seed(s);
  if (st == TN_OK && !s->a->engine.json) {
    tn_engine_print_memory(stderr, &s->setup, s->a->engine.verbose);
    if (!s->a->no_prompt) fwrite(p.text.p, 1, p.text.n, stdout);
    fflush(stdout);
  }
  if (st == TN_OK) st = generate(s, &p, seed, &err);
  if (st == TN_OK && s->error[0]) st = tn_fail(&err, TN_E_IO, "%s", s->error);
  if (st != TN_OK) {
    tn_engine_args_explain(&s->a->engine, &err);
    if (s->n_new > 0 && !s->a->engine.json) puts("");
    fflush(stdout);
  }
  int code = st == TN_OK ? report(s, p.ids, p.n, seed) : tn_cli_fail(&s->a->cli, &err);
  tn_run_prompt_free(&p);
  return code;
}

int tn_run_session(const run_args *a)
{
  session s = {.a = a};
  tn_cli_catch_interrupt();
  tn_setup_args more = {.events = {.ctx = &s, .token = on_token, .finish = on_finish}};
  s.piece = malloc(MAX_PIECE);
  s.shown = malloc(TN_UTF8_FEED_MAX(MAX_PIECE));
  s.ids = a->engine.json ? json_array() : NULL;
  s.logprobs = a->engine.json && a->n_logprobs ? json_array() : NULL;
  int code = s.piece && s.shown ? tn_engine_args_open(&a->engine, &more, &s.setup) : TN_EXIT_FAIL;
  if (code == TN_EXIT_OK) {
    code = run_prompt(&s);
    tn_setup_close(&s.setup);
  } else if (tn_cli_interrupted()) {
    code = 130; /* loading was cancelled */
  }
  free(s.piece);
  free(s.shown);
  free(s.text);
  json_decref(s.ids);
  json_decref(s.logprobs);
  return tn_cli_interrupted() && code == TN_EXIT_OK ? 130 : code;
}
