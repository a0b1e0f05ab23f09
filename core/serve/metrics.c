/* metrics: see metrics.h. */
#include "serve/metrics.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define MAX_BUCKETS 24u

static const double seconds[] = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75,
                                 1,     2.5,   5,    7.5,  10,   20,   40,   80,  160,  640, 2560};
static const double gaps[] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3,
                              0.4,   0.5,    0.75,  1,    2.5,   5,    7.5,   10,  20,   40,  80};
static const double longs[] = {0.3, 0.5, 0.8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                               30,  40,  50,  60, 120, 240, 480, 960, 1920, 7680};
static const double tokens[] = {1,    2,    5,    10,    20,    50,    100,    200,   500,
                                1000, 2000, 5000, 10000, 20000, 50000, 100000, 200000};
static const double rows[] = {1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384};
static const double few[] = {1, 2, 5, 10, 20};

typedef struct shape {
  const char *name, *help;
  const double *bounds;
  uint32_t n;
} shape;

#define B(a) a, sizeof(a) / sizeof((a)[0])
static const shape shapes[TN_HIST_N] = {
    [TN_HIST_TTFT] = {"vllm:time_to_first_token_seconds", "From arrival to the first token", B(seconds)},
    [TN_HIST_ITL] = {"vllm:inter_token_latency_seconds", "Between two tokens of a sequence", B(gaps)},
    [TN_HIST_TPOT] = {"vllm:request_time_per_output_token_seconds", "Mean gap of a request's tokens", B(gaps)},
    [TN_HIST_E2E] = {"vllm:e2e_request_latency_seconds", "From arrival to the last token", B(longs)},
    [TN_HIST_QUEUE] = {"vllm:request_queue_time_seconds", "From arrival to the first step", B(longs)},
    [TN_HIST_INFERENCE] = {"vllm:request_inference_time_seconds", "From the first step to the last token", B(longs)},
    [TN_HIST_PREFILL] = {"vllm:request_prefill_time_seconds", "From the first step to the first token", B(longs)},
    [TN_HIST_DECODE] = {"vllm:request_decode_time_seconds", "From the first token to the last", B(longs)},
    [TN_HIST_PROMPT_TOKENS] = {"vllm:request_prompt_tokens", "Tokens of a prompt", B(tokens)},
    [TN_HIST_GENERATION_TOKENS] = {"vllm:request_generation_tokens", "Tokens of an answer", B(tokens)},
    [TN_HIST_PARAMS_N] = {"vllm:request_params_n", "n of a request", B(few)},
    [TN_HIST_PARAMS_MAX_TOKENS] = {"vllm:request_params_max_tokens", "max_tokens of a request", B(tokens)},
    [TN_HIST_ITERATION_TOKENS] = {"vllm:iteration_tokens_total", "Rows of one step", B(rows)},
};

static const struct {
  const char *name, *labels, *help; /* help NULL: the same metric as the row before, other labels */
  double scale;
} counts[TN_COUNT_N] = {
    [TN_COUNT_PROMPT_TOKENS] = {"vllm:prompt_tokens_total", "", "Prompt tokens of finished prefills", 1},
    [TN_COUNT_GENERATION_TOKENS] = {"vllm:generation_tokens_total", "", "Tokens generated", 1},
    [TN_COUNT_CACHED_TOKENS] = {"tenon:prompt_tokens_cached_total", "", "Prompt tokens of answers that were not run",
                                1},
    [TN_COUNT_STOP] = {"vllm:request_success_total", ",finished_reason=\"stop\"", "Requests answered", 1},
    [TN_COUNT_LENGTH] = {"vllm:request_success_total", ",finished_reason=\"length\"", NULL, 1},
    [TN_COUNT_ABORT] = {"vllm:request_success_total", ",finished_reason=\"abort\"", NULL, 1},
    [TN_COUNT_ERROR] = {"vllm:request_success_total", ",finished_reason=\"error\"", NULL, 1},
    [TN_COUNT_DRAFTS] = {"vllm:spec_decode_num_drafts_total", "", "Drafts that were verified", 1},
    [TN_COUNT_DRAFT_TOKENS] = {"vllm:spec_decode_num_draft_tokens_total", "", "Tokens drafted", 1},
    [TN_COUNT_ACCEPTED_TOKENS] = {"vllm:spec_decode_num_accepted_tokens_total", "", "Drafted tokens accepted", 1},
    [TN_COUNT_STEP_NS] = {"tenon:step_seconds_total", "", "Time spent in steps of the engine", 1e-9},
    [TN_COUNT_REFUSED] = {"tenon:requests_refused_total", "", "Requests that were refused", 1},
};

typedef struct hist {
  uint64_t in[MAX_BUCKETS + 1]; /* the last: above all bounds */
  double sum;
} hist;

struct tn_metrics {
  pthread_mutex_t lock;
  uint64_t count[TN_COUNT_N];
  hist hist[TN_HIST_N];
};

tn_metrics *tn_metrics_new(void)
{
  tn_metrics *m = tn_zalloc(1, sizeof *m);
  if (m) pthread_mutex_init(&m->lock, NULL);
  return m;
}

void tn_metrics_free(tn_metrics *m)
{
  if (!m) return;
  pthread_mutex_destroy(&m->lock);
  free(m);
}

void tn_metrics_add(tn_metrics *m, uint32_t counter, uint64_t n)
{
  pthread_mutex_lock(&m->lock);
  m->count[counter] += n;
  pthread_mutex_unlock(&m->lock);
}

uint64_t tn_metrics_count(tn_metrics *m, uint32_t counter)
{
  pthread_mutex_lock(&m->lock);
  uint64_t n = m->count[counter];
  pthread_mutex_unlock(&m->lock);
  return n;
}

void tn_metrics_observe(tn_metrics *m, uint32_t which, double x)
{
  const shape *s = &shapes[which];
  uint32_t i = 0;
  while (i < s->n && x > s->bounds[i]) i++;
  pthread_mutex_lock(&m->lock);
  m->hist[which].in[i]++;
  m->hist[which].sum += x;
  pthread_mutex_unlock(&m->lock);
}

static void print_hist(FILE *f, const shape *s, const hist *h, const char *model)
{
  uint64_t n = 0;
  fprintf(f, "# HELP %s %s\n# TYPE %s histogram\n", s->name, s->help, s->name);
  for (uint32_t i = 0; i < s->n; i++) {
    n += h->in[i];
    fprintf(f, "%s_bucket{model_name=\"%s\",engine=\"0\",le=\"%g\"} %llu\n", s->name, model, s->bounds[i],
            (unsigned long long)n);
  }
  n += h->in[s->n];
  fprintf(f, "%s_bucket{model_name=\"%s\",engine=\"0\",le=\"+Inf\"} %llu\n", s->name, model, (unsigned long long)n);
  fprintf(f, "%s_sum{model_name=\"%s\",engine=\"0\"} %.9g\n", s->name, model, h->sum);
  fprintf(f, "%s_count{model_name=\"%s\",engine=\"0\"} %llu\n", s->name, model, (unsigned long long)n);
}

char *tn_metrics_text(tn_metrics *m, const char *model)
{
  char *text = NULL;
  size_t size;
  FILE *f = open_memstream(&text, &size);
  if (!f) return NULL;
  pthread_mutex_lock(&m->lock);
  for (uint32_t i = 0; i < TN_COUNT_N; i++) {
    if (counts[i].help) fprintf(f, "# HELP %s %s\n# TYPE %s counter\n", counts[i].name, counts[i].help, counts[i].name);
    fprintf(f, "%s{model_name=\"%s\",engine=\"0\"%s} %.17g\n", counts[i].name, model, counts[i].labels,
            (double)m->count[i] * counts[i].scale);
  }
  for (uint32_t i = 0; i < TN_HIST_N; i++) print_hist(f, &shapes[i], &m->hist[i], model);
  pthread_mutex_unlock(&m->lock);
  if (fclose(f) == 0) return text;
  free(text);
  return NULL;
}
