/* trace: requests as they arrived somewhere, to be replayed: when, and how long prompts and answers were, or the prompts.
 *
 * Formats, told apart by their content:
 *   CSV         the header TIMESTAMP,ContextTokens,GeneratedTokens and a row a request (Azure's LLM inference traces); times
 *               as 2023-11-16 18:15:46.6805900, with or without a zone, or in seconds
 *   JSON lines  {"turns": ["...", ...]} (Spec-Bench; the first turn is the prompt) or {"prompt": "..."}, one a request;
 *               they have no times
 * No I/O but tn_trace_read. Thread rule: any thread, one trace in one thread at a time. */
#ifndef TN_CORE_MEASURE_TRACE_H
#define TN_CORE_MEASURE_TRACE_H

#include "base.h"

#define TN_TRACE_MAX_TOKENS ((int64_t)1 << 24) /* of a prompt, of an answer */
#define TN_TRACE_MAX_BYTES ((size_t)1 << 30)   /* of a file */

typedef struct tn_trace_request {
  int64_t at_ns;           /* arrival behind the first request's; 0 where the trace has no times */
  int64_t n_prompt, n_new; /* tokens of prompt and answer; 0 where the file does not say */
  char *text;              /* the prompt, owned; NULL: only its length is known */
  int32_t *tokens;         /* [n_prompt] the same as tokens, owned, where somebody made them of it; else NULL */
} tn_trace_request;

typedef struct tn_trace { /* zeroed to begin; owns all of it */
  tn_trace_request *r;    /* [n] by arrival */
  size_t n, cap;
  bool timed; /* at_ns counts */
  int64_t longest_prompt, longest_new;
} tn_trace;

/* The first `most` requests of a file (0: all). Errors: TN_E_IO; TN_E_ARG with file and line for a row that is none, for a
 * file of no known format, and for one without requests; TN_E_NOMEM. On failure *out is empty. */
tn_status tn_trace_read(const char *path, size_t most, tn_trace *out, tn_err *err);

/* The same from n bytes; name stands for the file in errors. */
tn_status tn_trace_parse(const char *name, const char *bytes, size_t n, size_t most, tn_trace *out, tn_err *err);

/* n requests whose gaps are exponential with a mean of 1 / rate seconds, all of the same lengths; the same for the same
 * seed. TN_E_ARG, TN_E_NOMEM. */
tn_status tn_trace_poisson(double rate, size_t n, int64_t n_prompt, int64_t n_new, uint64_t seed, tn_trace *out,
                           tn_err *err);

/* Gives requests without times the arrivals of tn_trace_poisson. TN_E_ARG. */
tn_status tn_trace_arrive(tn_trace *t, double rate, uint64_t seed, tn_err *err);

void tn_trace_free(tn_trace *t);

/* trace_csv.c, trace_json.c: one row of n bytes behind the others; where is "file:line". */
tn_status tn_trace_csv_row(tn_trace *t, const char *p, size_t n, const char *where, tn_err *err);
tn_status tn_trace_json_row(tn_trace *t, const char *p, size_t n, const char *where, tn_err *err);
bool tn_trace_csv_header(const char *p, size_t n);

/* A zeroed request behind the others; NULL: no memory. */
tn_trace_request *tn_trace_add(tn_trace *t);

#endif
