/* served: what clients felt of a load, request by request, and its figures as serving benchmarks report them.
 *
 * Times are nanoseconds of one clock, the machine's or a simulated one. A request's pieces are what reached its client at
 * once: one token, or several where a step accepted drafted ones.
 *   TTFT  from arrival to the first piece          ITL   gaps between pieces, over all requests
 *   TPOT  (end - first piece) / (tokens - 1)       E2EL  from arrival to the last piece
 * Only requests that came to their end count. Percentiles interpolate between neighbours, standard deviations are the
 * population's, as NumPy has them. Thread rule: one thread at a time. */
#ifndef TN_CORE_MEASURE_SERVED_H
#define TN_CORE_MEASURE_SERVED_H

#include "base.h"

enum { TN_SERVED_WAITS = 0, TN_SERVED_DONE = 1, TN_SERVED_FAILED = 2 };

typedef struct tn_served {                /* one request */
  uint64_t arrival_ns, first_ns, last_ns; /* first_ns 0: no piece yet */
  int64_t n_prompt, n_new;
  uint32_t state;    /* TN_SERVED_* */
  uint32_t n_cached; /* prompt tokens that were found in a cache */
} tn_served;

typedef struct tn_serving { /* zeroed to begin; tn_serving_release */
  tn_served *r;             /* [n] */
  size_t n;
  float *gap_ms; /* [n_gaps] */
  size_t n_gaps, cap_gaps;
  uint32_t *per_second; /* [n_seconds] tokens given out in each second behind start_ns */
  size_t n_seconds;
  uint64_t start_ns, end_ns;
  tn_err failed; /* why the first that failed did */
} tn_serving;

/* Room for n requests. TN_E_NOMEM. */
tn_status tn_serving_new(tn_serving *s, size_t n, tn_err *err);
void tn_serving_release(tn_serving *s);

/* n_tokens more of request i reached its client at now_ns. TN_E_NOMEM. */
tn_status tn_serving_piece(tn_serving *s, size_t i, uint32_t n_tokens, uint64_t now_ns);
void tn_serving_done(tn_serving *s, size_t i);
void tn_serving_fail(tn_serving *s, size_t i, const char *why);

typedef struct tn_spread { /* of times, in ms; zeros where there is none */
  double mean, median, sd, p99;
} tn_spread;

typedef struct tn_serving_figures {
  uint64_t completed, failed, left; /* left: neither, of a load that was broken off */
  uint64_t n_prompt, n_new, n_cached;
  double seconds;
  double request_rate, output_rate, total_rate; /* a second */
  double goodput;                               /* requests a second that met both targets */
  double peak_output_rate;                      /* tokens of the busiest second */
  uint64_t peak_concurrent;                     /* requests between arrival and end */
  tn_spread ttft, tpot, itl, e2el;
} tn_serving_figures;

/* Targets in ms of TTFT, and of TPOT, the mean gap between a request's tokens; 0: none. TN_E_NOMEM. */
tn_status tn_serving_sum(const tn_serving *s, double target_ttft_ms, double target_itl_ms, tn_serving_figures *out,
                         tn_err *err);

#endif
