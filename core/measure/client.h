/* client: generation requests to a server that speaks OpenAI's HTTP API, many at once, every streamed piece timed.
 *
 *   tn_client_open -> tn_client_send ... -> tn_client_wait -> an answer -> tn_client_answer_free ... -> tn_client_close
 *
 * Answers are always streamed, so that the first piece and the gaps between pieces are the server's and not those of its
 * buffers. Times are nanoseconds of CLOCK_MONOTONIC (tn_now_ns). A connection is kept and used again; there are as many
 * as requests under way. Nothing is retried, redirects are not followed, and no proxy stands between.
 *
 * Thread rule: a client belongs to one thread at a time; several clients may live in several threads. */
#ifndef TN_CORE_MEASURE_CLIENT_H
#define TN_CORE_MEASURE_CLIENT_H

#include <jansson.h>

#include "base.h"

#define TN_CLIENT_KEY_ENV "TENON_API_KEY" /* then OPENAI_API_KEY */

typedef struct tn_client tn_client;

typedef struct tn_client_cfg { /* borrowed until open returns */
  const char *url;             /* "http://127.0.0.1:8080", with or without a /v1 at its end */
  const char *api_key;         /* sent as "Authorization: Bearer"; NULL: the environment's, if any; "": none */
  uint32_t connect_timeout_s;  /* 0: 10 */
  uint32_t silence_timeout_s;  /* a request that receives nothing for so long fails; 0: 600 */
} tn_client_cfg;

/* Nothing is connected yet. Errors: TN_E_ARG for a URL that is neither http nor https, TN_E_NOMEM, TN_E_INTERNAL where the
 * HTTP library does not start. */
tn_status tn_client_open(const tn_client_cfg *cfg, tn_client **out, tn_err *err);
void tn_client_close(tn_client *c); /* ends what is under way. Accepts NULL */

/* The server's URL, without a slash or /v1 at its end, for messages. Borrowed. */
const char *tn_client_url(const tn_client *c);

typedef struct tn_client_request { /* borrowed until send returns */
  const char *model;               /* NULL: the field is left out; see tn_client_model */
  const char *prompt;              /* text; NULL: tokens */
  const int32_t *tokens;           /* [n_tokens] a prompt of token ids, for completions only */
  int64_t n_tokens;
  bool chat;          /* /v1/chat/completions, the prompt as the user's message; else /v1/completions */
  bool ignore_eos;    /* end-of-generation tokens do not end it (a field beyond OpenAI's, sent only when set) */
  int64_t max_tokens; /* >= 1 */
  double temperature; /* 0: greedy */
  int64_t seed;       /* sent when >= 0 */
  const json_t *more; /* further fields, an object, over those above; NULL: none */
  void *user;         /* handed back with the answer */
} tn_client_request;

/* Starts a request; the transfer moves on in tn_client_wait. Errors: TN_E_ARG for a prompt that is missing, no UTF-8, or of
 * tokens in a chat, TN_E_NOMEM, TN_E_INTERNAL for what the HTTP library refuses. */
tn_status tn_client_send(tn_client *c, const tn_client_request *q, tn_err *err);

/* Requests sent whose answer has not been given out yet. */
uint32_t tn_client_running(const tn_client *c);

typedef struct tn_client_answer {
  void *user;
  int status;       /* of HTTP; 0: none came */
  bool ok;          /* status 200, a stream that came to its end, and no error in it */
  tn_err err;       /* one sentence where not ok: the server's own words, or what went wrong on the way; TN_E_IO */
  char finish[32];  /* "stop", "length", ...; "" when the server said nothing */
  char *text;       /* [n_text] and a NUL: what was generated; a text that is no UTF-8 is the server's */
  size_t n_text;    /* bytes */
  int64_t n_prompt; /* tokens by the server's usage; -1: it gave none */
  int64_t n_new;
  int64_t n_cached;   /* prompt tokens that it found in its cache; -1: it does not say */
  uint32_t n_chunks;  /* streamed pieces of the answer: not those that only name the role, the end or the usage */
  uint64_t *chunk_ns; /* [n_chunks] when each was there: the first is the first token, the others give the gaps */
  uint64_t sent_ns, done_ns; /* the request was started; its last byte was there */
} tn_client_answer;

/* Moves transfers on until an answer is complete, or for timeout_ms (0: as far as they are). *out: the answer, in the order
 * in which they end, NULL when the time is over or nothing is under way; free with tn_client_answer_free. A failed request
 * is an answer, not an error. Errors: TN_E_INTERNAL, TN_E_NOMEM. */
tn_status tn_client_wait(tn_client *c, int timeout_ms, tn_client_answer **out, tn_err *err);
void tn_client_answer_free(tn_client_answer *a); /* accepts NULL */

/* One request alone: send and wait. stop is asked now and then and ends the request with TN_E_STATE; NULL: never. */
tn_status tn_client_ask(tn_client *c, const tn_client_request *q, bool (*stop)(void), tn_client_answer **out,
                        tn_err *err);

/* GET path ("/v1/models") as JSON. Errors: TN_E_IO with status and path when the server cannot be reached or answers with
 * anything but 200 and JSON; TN_E_NOMEM. A new reference. */
tn_status tn_client_get(tn_client *c, const char *path, json_t **out, tn_err *err);

/* The name of the first model that the server lists at /v1/models, owned (free()). Errors: tn_client_get, TN_E_IO for a
 * list without one. */
tn_status tn_client_model(tn_client *c, char **out, tn_err *err);

#endif
