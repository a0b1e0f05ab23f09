/* engine: sequences in, tokens out. One engine owns its plugins, weights, KV pools and threads; two engines live in one
 * process without knowing of each other.
 *
 * Thread rule: all calls from one thread at a time (the engine thread). Events are made from inside tn_engine_step. */
#ifndef TN_CORE_ENGINE_ENGINE_H
#define TN_CORE_ENGINE_ENGINE_H

#include "exec_open.h"
#include "sequence.h"

typedef struct tn_part_ref { /* a chosen plugin and its option values; desc NULL: the slot is empty */
  const tn_desc *desc;
  const tn_value *values;
} tn_part_ref;

typedef struct tn_layer_part { /* attention of layers [layer0, layer1) */
  tn_part_ref part;
  uint32_t layer0, layer1;
} tn_layer_part;

typedef struct tn_token_event {
  uint64_t seq;
  void *user;
  int32_t token;
  uint32_t n_top;     /* alternatives */
  int64_t pos;        /* its text position */
  double logprob;     /* of the raw model law, 0 unless logprobs were asked for */
  const int32_t *top; /* [n_top] best first; borrowed until the callback returns */
  const double *top_logprob;
} tn_token_event;

typedef struct tn_events { /* any may be NULL */
  void *ctx;
  void (*token)(void *ctx, const tn_token_event *e);
  /* Logits after the token at text position pos, for every row of a scored request: [n_vocab], borrowed. */
  void (*logits)(void *ctx, uint64_t seq, void *user, int64_t pos, const float *row);
  /* why: TN_FINISH_*; msg: only with TN_FINISH_ERROR. The sequence may be read until the callback returns. */
  void (*finish)(void *ctx, const tn_seq *seq, uint32_t why, const char *msg);
  /* A step has run and nothing of it is committed yet: what its rows need is held. */
  void (*ran)(void *ctx);
} tn_events;

typedef struct
    tn_engine_cfg { /* borrowed until close: model, descriptors, values, cache_dir; the rest till open returns */
  const tn_model *model;
  tn_part_ref backend, memory, eviction, weights, kv, demote, draft, position, scheduler, parallel;
  const tn_layer_part *attention;
  const tn_plan *plan;
  uint32_t n_attention;
  uint32_t threads;     /* 0: the CPUs allowed */
  uint32_t max_rows;    /* rows of a step, 0: 512 */
  uint32_t max_seqs;    /* sequences that may hold KV at once, 0: 8 */
  int64_t ctx;          /* tokens of a sequence at most, 0: the model's, 8192 at most */
  uint64_t kv_budget;   /* bytes, 0: enough for max_seqs times ctx */
  bool prefix_cache;    /* requests find entries of others that began alike; where the composition allows it */
  uint32_t max_queued;  /* requests that may wait, 0: no limit */
  uint32_t rollback;    /* tokens that a sequence's KV may be taken back (a second model); 0: none */
  uint32_t flags;       /* TN_PREP_* */
  uint32_t verify;      /* TN_VERIFY_* */
  uint32_t build_flags; /* TN_BUILD_LSE, OBSERVE_ALL */
  double typical_eps, typical_delta;
  const int32_t *eog; /* [n_eog] end-of-generation tokens */
  uint32_t n_eog;
  tn_events events;
  tn_log_fn log;
  void *log_ctx;
  tn_observe_fn observe;
  void *observe_ctx;
  tn_trace_fn trace; /* sees the output of every record; NULL: none. For an unfused program (TN_PREP_UNFUSED) */
  void *trace_ctx;
  const char *cache_dir;   /* folder of packed weights, for the next process; NULL: none are kept */
  uint64_t cache_limit;    /* bytes of all files there; 0: no limit */
  tn_progress_fn progress; /* loading weights */
  void *progress_ctx;
  tn_clock_fn clock; /* of all times that the engine and its plugins see; NULL: the machine's */
  void *clock_ctx;
  bool null_forward; /* the model is not run: no weights, no cache, logits are zeros (see exec_null.h) */
} tn_engine_cfg;

typedef struct tn_engine tn_engine;

tn_status tn_engine_open(const tn_engine_cfg *cfg, tn_engine **out, tn_err *err);

/* Cancels what runs, without events. Accepts NULL. */
void tn_engine_close(tn_engine *e);

/* Queues a request; runs nothing. Refused at once with both numbers when it can never fit (TN_E_NEVER), or when max_queued
 * others wait (TN_E_FULL: try again), or with the field that is out of range (TN_E_ARG). */
tn_status tn_engine_submit(tn_engine *e, const tn_request *req, uint64_t *seq, tn_err *err);

/* Ends a sequence at the next step with TN_FINISH_CANCELLED. Unknown ids are ignored. */
void tn_engine_cancel(tn_engine *e, uint64_t seq);

/* One step of everything that is queued. TN_OK, also when there was nothing to do. A failure of the backend ends the
 * sequences that were in the step (TN_FINISH_ERROR) and is returned. */
tn_status tn_engine_step(tn_engine *e, tn_err *err);

/* True when no sequence is queued or running. */
bool tn_engine_idle(const tn_engine *e);

/* A new request that continues an unfinished sequence's committed text: KV is shared. req->prompt is what follows it. */
tn_status tn_engine_fork(tn_engine *e, uint64_t parent, const tn_request *req, uint64_t *seq, tn_err *err);

/* A sequence's tokens, KV, eviction and plugin state as bytes (free()), and a request that starts from them:
 * req->prompt is what follows the saved text. fingerprint (32 bytes) must be equal on both sides. */
tn_status tn_engine_save(tn_engine *e, uint64_t seq, const uint8_t fingerprint[32], uint8_t **out, size_t *n,
                         tn_err *err);
tn_status tn_engine_restore(tn_engine *e, const uint8_t *bytes, size_t n, const uint8_t fingerprint[32],
                            const tn_request *req, uint64_t *seq, tn_err *err);

/* The hidden row behind the final norm of the last token that the sequence ran, [d_model], to be read in a token or finish
 * event. Only with TN_BUILD_HIDDEN (TN_E_UNSUPPORTED without). */
bool tn_engine_has_hidden(const tn_engine *e);
tn_status tn_engine_hidden(const tn_engine *e, const tn_seq *s, float *dst, tn_err *err);

/* An option that its plugin declares settable at run time, between steps. slot: TN_SLOT_*; every instance of that slot
 * and name gets it. */
tn_status tn_engine_set(tn_engine *e, uint32_t slot, const char *name, const char *key, const tn_value *value,
                        tn_err *err);

/* Looks a live sequence up; NULL when it is gone. */
const tn_seq *tn_engine_seq(const tn_engine *e, uint64_t seq);

typedef struct tn_counter {         /* engagement of one plugin */
  const char *key, *name, *counter; /* "eviction", "h2o", "evictions" */
  uint64_t value;
} tn_counter;

typedef struct tn_engine_info {
  uint32_t world, threads, max_rows, max_seqs, n_groups, page_tokens;
  int64_t ctx;
  uint32_t weights_kept, reserved0; /* weights that came as an earlier process had packed them */
  uint64_t weights_bytes, kv_bytes_total, kv_bytes_used, kv_tokens; /* kv_tokens: entries that the pools hold */
  double concurrency;                                               /* sequences of full length that fit at once */
  uint64_t steps, rows, n_preempted; /* n_preempted: n_swapped_out among them, the others were run again */
  const char *device;
  /* now */
  uint32_t n_waiting, n_running, n_swapped; /* sequences: without KV yet; with; with KV as bytes */
  bool prefix_cache;                        /* it is on, and the composition allows it */
  uint64_t kv_bytes_idle;                   /* of the prefix index: free for whoever needs them */
  /* since the engine was opened, finished sequences included */
  uint64_t n_submitted, n_finished, n_swapped_out;
  uint64_t prefix_asked, prefix_found, prefix_reclaimed; /* tokens looked for, found; pages given up */
  uint64_t n_prompt_tokens, n_new_tokens, n_drafted, n_accepted;
} tn_engine_info;

tn_engine_info tn_engine_stat(const tn_engine *e);

/* Counters of every plugin, at most n; returns how many there are. */
uint32_t tn_engine_counters(const tn_engine *e, tn_counter *out, uint32_t n);

/* Every invariant of the KV store against the live sequences (tests; true and no text when sound). */
bool tn_engine_check(const tn_engine *e, tn_err *err);

#endif
