/* replay: a trace's requests against an engine in this process (replay.c) or a server (replay_url.c).
 *
 * Open loop: a request arrives when the trace says, whatever the load; its time to the first token counts from then. Closed
 * loop, for a trace without times: the next one arrives when one of `concurrency` has ended. Where the trace gives lengths, prompts are random tokens
 * that no two requests share, and answers have just the trace's length; where it gives texts, answers end by themselves.
 *
 * Simulated time: the engine runs without its model (tn_engine_cfg.null_forward), answers are given tokens, and a step takes
 * us_per_step + us_per_row for each of its rows. Everything else is the engine's own code; the result depends on trace, seed
 * and composition alone.
 *
 * Thread rule: the engine thread. */
#ifndef TN_CORE_MEASURE_REPLAY_H
#define TN_CORE_MEASURE_REPLAY_H

#include "measure/client.h"
#include "measure/served.h"
#include "measure/trace.h"
#include "measure/waste.h"

typedef struct tn_replay_state { /* for whoever waits */
  size_t n, ended, under_way;    /* requests */
  double seconds;                /* of the load's clock */
} tn_replay_state;

typedef struct tn_replay_cfg { /* borrowed until the run returns */
  const tn_trace *trace;
  double speed;         /* arrivals come so many times as fast, > 0 */
  uint32_t concurrency; /* at most so many requests at once; 0: no limit, for a trace with times only */
  int64_t
      most_new; /* a request asks for so many tokens at least, though its answer ends where the trace says; 0: just that */
  int64_t usual_new; /* tokens of answers where the trace does not say, >= 1 */
  uint64_t seed;
  bool (*progress)(void *ctx, const tn_replay_state *s); /* now and then; false breaks the run off. NULL: none */
  void *ctx;
} tn_replay_cfg;

/* Tokens of the longest sequence, for [engine] ctx; 0 where the trace's prompts are texts. */
int64_t tn_replay_ctx(const tn_replay_cfg *cfg);

/* ---------------------------------------------------------------- in this process */

typedef struct tn_replay_cost { /* of a simulated step, microseconds */
  double us_per_step, us_per_row;
} tn_replay_cost;

typedef struct tn_replay tn_replay;

typedef struct tn_replay_result { /* beside what clients felt */
  tn_waste waste;
  uint64_t steps, rows, n_preempted, n_swapped, kv_bytes_total;
  double host_seconds; /* inside the engine's steps, of the machine's clock */
} tn_replay_result;

/* Made before the engine, whose events and clock are the replay's: pass tn_replay_setup's part of the arguments. cost: of
 * simulated time; NULL: the machine's clock and the model itself. NULL: no memory. */
tn_replay *tn_replay_new(const tn_replay_cost *cost);
void tn_replay_free(tn_replay *r);

tn_events tn_replay_events(tn_replay *r);
uint64_t tn_replay_now(void *replay); /* a tn_clock_fn */

/* Runs the trace. out: made here, tn_serving_release, also of a run that was broken off (its requests that had not ended
 * are left) or failed. Errors: TN_E_STATE when the engine runs nobody any more, TN_E_NOMEM, those of the engine; a request
 * that the engine refuses is a failed one, no error. */
tn_status tn_replay_run(tn_replay *r, tn_engine *e, const tn_replay_cfg *cfg, tn_serving *out, tn_replay_result *more,
                        tn_err *err);

/* ---------------------------------------------------------------- a server */

/* model: the name to ask for. Prompts are random token ids below n_vocab where the trace gives lengths, sent to
 * /v1/completions with ignore_eos, else texts to /v1/chat/completions. Errors: TN_E_IO when not one request came to its
 * end, TN_E_NOMEM, those of the client. */
tn_status tn_replay_url(tn_client *c, const char *model, uint32_t n_vocab, const tn_replay_cfg *cfg, tn_serving *out,
                        tn_err *err);

/* replay_draw.c: n tokens of request i, and the i-th of a run of numbers that looks random. */
void tn_replay_tokens(uint64_t seed, size_t i, uint32_t n_vocab, int32_t *out, int64_t n);

/* Tokens that request i asks for, and after how many its answer ends (INT64_MAX: by itself). */
int64_t tn_replay_asks(const tn_replay_cfg *cfg, size_t i);
int64_t tn_replay_goal(const tn_replay_cfg *cfg, size_t i);

/* When request i arrives, behind the run's start. */
uint64_t tn_replay_arrival(const tn_replay_cfg *cfg, size_t i);

#endif
