/* remote: a variant that is a running server, seen from outside. A run is one prompt as a completion, greedy, of n_gen
 * tokens, streamed; its figures are those of the client's clock:
 *
 *   time to first token   from the request until the first piece of text is there
 *   inter-token gap       between two pieces of text; what comes in one read of the socket is one piece
 *   decode speed          tokens behind the first, by the time from the first piece to the last
 * A server that takes them gets the fields ignore_eos, cache_prompt = false and a cache_salt of the run's own beside
 * OpenAI's, so that answers have the same length and no prompt comes from a cache.
 * Thread rule: one thread. */
#ifndef TN_CORE_AB_REMOTE_H
#define TN_CORE_AB_REMOTE_H

#include "ab/metric.h"
#include "measure/client.h"

typedef struct tn_ab_remote {
  tn_client *client;
  char *url, *model; /* as the server names it */
  json_t *plan;      /* of a Tenon, else NULL */
  bool plain;        /* takes OpenAI's fields only */
  uint64_t n_runs;
  int64_t n_gen;
  /* of the last run */
  char *text;
  size_t n_text;
  double ttft_s, decode_s; /* from the request to the first piece, from there to the last */
  double *gap;             /* [n_gaps] seconds, ascending */
  uint32_t n_gaps;
  int64_t n_prompt, n_new; /* tokens; n_prompt -1: the server does not say */
  /* of all runs */
  uint64_t n_cached; /* prompt tokens from its cache */
  bool uneven;       /* an answer had another length than n_gen */
} tn_ab_remote;

/* Asks the server for its model, and whether it is a Tenon. n_gen tokens a run. Release also after a failure. Errors: those
 * of tn_client_open and tn_client_model. */
tn_status tn_ab_remote_open(tn_ab_remote *r, const char *url, int64_t n_gen, tn_err *err);
void tn_ab_remote_release(tn_ab_remote *r);

/* Fingerprint of a Tenon's composition, "" of another server. Borrowed. */
const char *tn_ab_remote_fingerprint(const tn_ab_remote *r);

/* One run; salt is its own. stop as of tn_client_ask. Errors: TN_E_IO with the server's words, or for an answer without
 * text; TN_E_STATE where stop ended it; TN_E_NOMEM. */
tn_status tn_ab_remote_run(tn_ab_remote *r, const char *prompt, uint64_t salt, bool (*stop)(void), tn_err *err);

/* Figures of the last run into x; ref is the reference's run of the same prompt. What came all at once has no speed: those
 * stay as they are. */
void tn_ab_remote_figures(const tn_ab_remote *r, const tn_ab_remote *ref, double x[TN_AB_N_METRICS]);

#endif
