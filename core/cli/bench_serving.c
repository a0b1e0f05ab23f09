/* bench_serving: what a replay gave, with the labels and fields of vLLM's serving benchmark. See bench_trace.h. */
#include <stdarg.h>
#include <string.h>
#include <time.h>

#include "cli/bench_trace.h"

enum { WIDE = 50 };

/* ---------------------------------------------------------------- the block */

static void title(const char *text, char fill)
{
  int n = (int)strlen(text), left = (WIDE - n) / 2;
  for (int i = 0; i < left; i++) putchar(fill);
  fputs(text, stdout);
  for (int i = left + n; i < WIDE; i++) putchar(fill);
  putchar('\n');
}

static void count(const char *label, uint64_t n) { printf("%-40s %-10llu\n", label, (unsigned long long)n); }
static void real(const char *label, double x) { printf("%-40s %-10.2f\n", label, x); }

static void spread(const char *heading, const char *name, const tn_spread *s)
{
  const struct {
    const char *word;
    double ms;
  } rows[] = {{"Mean", s->mean}, {"Median", s->median}, {"P99", s->p99}};
  title(heading, '-');
  for (size_t i = 0; i < TN_ARRAY_LEN(rows); i++) {
    char label[64];
    snprintf(label, sizeof label, "%s %s (ms):", rows[i].word, name);
    real(label, rows[i].ms);
  }
}

static void memory(const tn_replay_result *m)
{
  const tn_waste *w = &m->waste;
  double whole = w->total > 0 ? w->total : 1, seconds = w->seconds > 0 ? w->seconds : 1;
  title("KV Cache (mean over time)", '-');
  real("KV cache (MiB):", (double)m->kv_bytes_total / 1048576);
  real("Occupied (% of the cache):", 100 * (w->total - w->free) / whole);
  real("Filled (% of occupied):", 100 * tn_waste_share(w, w->filled));
  real("Internal waste (% of occupied):", 100 * tn_waste_share(w, w->internal));
  real("Temporary waste (% of occupied):", 100 * tn_waste_share(w, w->temporary));
  real("External waste (% of occupied):", 100 * tn_waste_share(w, w->external));
  real("Free while requests wait (% of cache):", 100 * w->free_waiting / whole);
  real("Mean running sequences:", w->seqs / seconds);
  count("Peak running sequences:", w->peak_seqs);
  count("Preemptions:", m->n_preempted);
}

static void steps(const tn_bench_served *r)
{
  const tn_replay_result *m = r->more;
  double n = m->steps > 0 ? (double)m->steps : 1;
  title("Steps", '-');
  count("Steps:", m->steps);
  real("Tokens per step:", (double)m->rows / n);
  if (!r->t->null_forward) return;
  real("Simulated time per step (ms):", 1e-3 * (r->t->cost.us_per_step + r->t->cost.us_per_row * (double)m->rows / n));
  real("Host time per step (us):", 1e6 * m->host_seconds / n);
}

static void block(const tn_bench_served *r)
{
  const tn_serving_figures *f = &r->f;
  const tn_bench_trace *t = r->t;
  if (r->variant) printf("%s\n", r->variant);
  title(" Serving Benchmark Result ", '=');
  if (r->partial) count("Partial result, requests left out:", f->left);
  count("Successful requests:", f->completed);
  if (f->failed > 0) count("Failed requests:", f->failed);
  if (t->cfg.concurrency > 0) count("Maximum request concurrency:", t->cfg.concurrency);
  if (t->poisson > 0 || t->rate > 0)
    real("Request rate configured (RPS):", (t->poisson > 0 ? t->poisson : t->rate) * t->cfg.speed);
  real("Benchmark duration (s):", f->seconds);
  count("Total input tokens:", f->n_prompt);
  count("Total generated tokens:", f->n_new);
  real("Request throughput (req/s):", f->request_rate);
  if (t->target_ttft > 0 || t->target_itl > 0) real("Request goodput (req/s):", f->goodput);
  real("Output token throughput (tok/s):", f->output_rate);
  real("Peak output token throughput (tok/s):", f->peak_output_rate);
  real("Peak concurrent requests:", (double)f->peak_concurrent);
  real("Total token throughput (tok/s):", f->total_rate);
  spread("Time to First Token", "TTFT", &f->ttft);
  spread("Time per Output Token (excl. 1st token)", "TPOT", &f->tpot);
  spread("Inter-token Latency", "ITL", &f->itl);
  if (r->more) memory(r->more);
  if (r->more) steps(r);
  title("", '=');
}

/* ---------------------------------------------------------------- JSON */

static void set_real(json_t *j, const char *key, double x) { json_object_set_new(j, key, json_real(x)); }
static void set_count(json_t *j, const char *key, uint64_t n)
{
  json_object_set_new(j, key, json_integer((json_int_t)n));
}

static void set_spread(json_t *j, const char *name, const tn_spread *s)
{
  const struct {
    const char *word;
    double ms;
  } rows[] = {{"mean", s->mean}, {"median", s->median}, {"std", s->sd}, {"p99", s->p99}};
  for (size_t i = 0; i < TN_ARRAY_LEN(rows); i++) {
    char key[64];
    snprintf(key, sizeof key, "%s_%s_ms", rows[i].word, name);
    set_real(j, key, rows[i].ms);
  }
}

static json_t *memory_json(const tn_replay_result *m)
{
  const tn_waste *w = &m->waste;
  double whole = w->total > 0 ? w->total : 1, seconds = w->seconds > 0 ? w->seconds : 1;
  return json_pack("{s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:i, s:I, s:I}", "bytes_total",
                   (json_int_t)m->kv_bytes_total, "bytes_held_peak", (json_int_t)w->peak_held, "occupied",
                   (w->total - w->free) / whole, "filled", tn_waste_share(w, w->filled), "waste",
                   tn_waste_share(w, w->internal + w->temporary + w->external), "internal",
                   tn_waste_share(w, w->internal), "temporary", tn_waste_share(w, w->temporary), "external",
                   tn_waste_share(w, w->external), "free_while_waiting", w->free_waiting / whole, "mean_sequences",
                   w->seqs / seconds, "peak_sequences", (int)w->peak_seqs, "preemptions", (json_int_t)m->n_preempted,
                   "swapped", (json_int_t)m->n_swapped);
}

/* Where it ran. */
static void set_place(json_t *j, const tn_bench_served *r)
{
  char print[TN_FINGERPRINT_HEX + 1];
  const char *model = r->s ? tn_gguf_path(r->s->model->gguf) : r->model;
  json_object_set_new(j, "backend", json_string(r->s ? "tenon" : "openai"));
  json_object_set_new(j, "base_url", r->server ? json_string(r->server) : json_null());
  json_object_set_new(j, "model_id", json_string(model));
  json_object_set_new(j, "tokenizer_id", json_string(model));
  if (!r->s) return;
  tn_composition_short(r->s->composition, print);
  json_object_set_new(j, "fingerprint", json_string(print));
  json_object_set_new(j, "composition", tn_bench_composition(r->s->composition));
  json_object_set_new(j, "kv_cache", memory_json(r->more));
  set_count(j, "steps", r->more->steps);
  set_count(j, "step_tokens", r->more->rows);
  set_real(j, "host_seconds", r->more->host_seconds);
}

static void set_load(json_t *j, const tn_bench_served *r)
{
  const tn_bench_trace *t = r->t;
  double rate = t->poisson > 0 ? t->poisson : t->rate;
  bool closed = t->cfg.concurrency > 0;
  json_object_set_new(j, "trace", t->file ? json_string(t->file) : json_null());
  set_count(j, "num_prompts", t->trace.n);
  json_object_set_new(j, "request_rate", rate > 0 ? json_real(rate * t->cfg.speed) : json_string("inf"));
  json_object_set_new(j, "max_concurrency", closed ? json_integer(t->cfg.concurrency) : json_null());
  set_real(j, "speed", t->cfg.speed);
  set_count(j, "seed", t->cfg.seed);
  json_object_set_new(j, "partial", json_boolean(r->partial));
  json_object_set_new(j, "null_forward", json_boolean(t->null_forward));
  if (t->null_forward)
    json_object_set_new(j, "step_cost_us", json_pack("[f, f]", t->cost.us_per_step, t->cost.us_per_row));
}

static json_t *record(const tn_bench_served *r)
{
  const tn_serving_figures *f = &r->f;
  bool targets = r->t->target_ttft > 0 || r->t->target_itl > 0;
  char now[32] = "";
  time_t at = time(NULL);
  struct tm utc;
  json_t *j = json_object();
  if (!j) return NULL;
  if (gmtime_r(&at, &utc)) (void)strftime(now, sizeof now, "%Y%m%d-%H%M%S", &utc);
  json_object_set_new(j, "date", json_string(now));
  set_place(j, r);
  set_load(j, r);
  if (r->variant) json_object_set_new(j, "variant", json_string(r->variant));
  set_real(j, "duration", f->seconds);
  set_count(j, "completed", f->completed);
  set_count(j, "failed", f->failed);
  set_count(j, "left", f->left);
  set_count(j, "total_input_tokens", f->n_prompt);
  set_count(j, "total_output_tokens", f->n_new);
  set_count(j, "total_cached_tokens", f->n_cached);
  set_real(j, "request_throughput", f->request_rate);
  json_object_set_new(j, "request_goodput", targets ? json_real(f->goodput) : json_null());
  set_real(j, "output_throughput", f->output_rate);
  set_real(j, "total_token_throughput", f->total_rate);
  set_real(j, "max_output_tokens_per_s", f->peak_output_rate);
  set_count(j, "max_concurrent_requests", f->peak_concurrent);
  set_spread(j, "ttft", &f->ttft);
  set_spread(j, "tpot", &f->tpot);
  set_spread(j, "itl", &f->itl);
  set_spread(j, "e2el", &f->e2el);
  return j;
}

int tn_bench_served_out(const tn_bench_served *r, uint32_t format, uint32_t n, bool several)
{
  if (format == TN_BENCH_MD) {
    if (n > 0) putchar('\n');
    block(r);
    return tn_cli_done("bench", TN_EXIT_OK);
  }
  json_t *j = record(r);
  bool lines = format == TN_BENCH_JSONL;
  if (!j) {
    fputs("tenon bench: no memory for a result\n", stderr);
    return TN_EXIT_FAIL;
  }
  if (!lines && several) fputs(n == 0 ? "[\n" : ",\n", stdout);
  json_dumpf(j, stdout, (lines ? JSON_COMPACT : JSON_INDENT(2)) | JSON_REAL_PRECISION(12));
  if (lines || !several) putchar('\n');
  json_decref(j);
  return tn_cli_done("bench", TN_EXIT_OK);
}
