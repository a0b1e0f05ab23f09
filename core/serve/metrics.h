/* metrics: what a server counts, and its text for Prometheus: names as vLLM's where vLLM has one, tenon: for the rest.
 *
 * Thread rule: any thread; every call locks. */
#ifndef TN_CORE_SERVE_METRICS_H
#define TN_CORE_SERVE_METRICS_H

#include "base.h"

enum { /* histograms */
       TN_HIST_TTFT = 0,
       TN_HIST_ITL,
       TN_HIST_TPOT,
       TN_HIST_E2E,
       TN_HIST_QUEUE,
       TN_HIST_INFERENCE,
       TN_HIST_PREFILL,
       TN_HIST_DECODE,
       TN_HIST_PROMPT_TOKENS,
       TN_HIST_GENERATION_TOKENS,
       TN_HIST_PARAMS_N,
       TN_HIST_PARAMS_MAX_TOKENS,
       TN_HIST_ITERATION_TOKENS,
       TN_HIST_N
};

enum { /* counters */
       TN_COUNT_PROMPT_TOKENS = 0,
       TN_COUNT_GENERATION_TOKENS,
       TN_COUNT_CACHED_TOKENS,
       TN_COUNT_STOP,
       TN_COUNT_LENGTH,
       TN_COUNT_ABORT,
       TN_COUNT_ERROR,
       TN_COUNT_DRAFTS,
       TN_COUNT_DRAFT_TOKENS,
       TN_COUNT_ACCEPTED_TOKENS,
       TN_COUNT_STEP_NS,
       TN_COUNT_REFUSED,
       TN_COUNT_N
};

typedef struct tn_metrics tn_metrics;

tn_metrics *tn_metrics_new(void); /* NULL: no memory */
void tn_metrics_free(tn_metrics *m);

void tn_metrics_add(tn_metrics *m, uint32_t counter, uint64_t n);
void tn_metrics_observe(tn_metrics *m, uint32_t hist, double x);
uint64_t tn_metrics_count(tn_metrics *m, uint32_t counter);

/* The counters and histograms as text, with the label model_name. Free with free(); NULL: no memory. */
char *tn_metrics_text(tn_metrics *m, const char *model);

#endif
