/* job: one generation request on its way through the engine: its choices, their texts, and what goes to the client.
 *
 * The HTTP side fills it and hands it to the loop; from then on it is the engine thread's, apart from the outbox. */
#ifndef TN_CORE_SERVE_JOB_H
#define TN_CORE_SERVE_JOB_H

#include "serve/outbox.h"
#include "serve/request.h"
#include "tokenizer/tokenizer.h"

typedef struct tn_job tn_job;

typedef struct tn_prompt { /* tokens of one prompt, owned */
  int32_t *ids;
  size_t n;
} tn_prompt;

typedef struct tn_reply {
  tn_job *job;
  uint32_t index, prompt; /* position in the answer; of job->prompts */
  uint64_t seq;           /* 0: not in the engine */
  bool submitted, begun /* has a token */, closed;
  const char *finish; /* "stop", "length"; NULL: not yet */
  tn_stop_text text;
  json_t *entries;        /* [[entry, first byte of its text], ...] logprobs that were not sent yet; NULL: not wanted */
  json_t *tokens;         /* ids that were not sent yet; NULL: not wanted */
  json_t *vector;         /* the embedding */
  json_t *prompt_entries; /* logprobs of the prompt's tokens; NULL: not wanted */
  uint64_t n_new, n_cached, n_drafted, n_accepted, first_ns, last_ns;
  uint64_t key;
} tn_reply;

struct tn_job {
  tn_job *next; /* in the loop's list */
  tn_gen gen;
  tn_prompt *prompts; /* [n_prompts] */
  uint32_t n_prompts, n_choices, n_open;
  tn_reply *choices; /* [n_choices] */
  tn_outbox *out;
  const tn_tokenizer *tokenizer;
  const char *model, *fingerprint; /* borrowed from the server */
  char id[48];
  int64_t created; /* seconds since 1970 */
  uint64_t arrival_ns, deadline_ns, scheduled_ns;
  uint64_t seed;
  bool started;   /* the answer has begun */
  bool delivered; /* it is complete, and the client was still there */
  tn_fault fault; /* status 0: none */
};

/* Takes over gen and prompts. NULL: no memory, both are freed. The job holds a reference to the outbox. */
tn_job *tn_job_new(tn_gen *gen, tn_prompt *prompts, uint32_t n_prompts, tn_outbox *out);
void tn_job_free(tn_job *j);
void tn_prompts_free(tn_prompt *prompts, uint32_t n);

/* The engine took the request: the answer's status, and what comes first in a stream. */
void tn_job_begin(tn_job *j);

/* One token of a choice. logprob and alternatives where they were asked for. Returns true when the choice is over by
 * what its text says. */
typedef struct tn_job_token {
  int32_t id;
  bool silent; /* ends the answer: counted, not shown */
  double logprob;
  uint32_t n_top;
  const int32_t *top;
  const double *top_logprob;
} tn_job_token;
bool tn_job_take(tn_reply *c, const tn_job_token *t);

/* A row of logits behind position pos of the prompt. */
void tn_job_logits(tn_reply *c, int64_t pos, const float *row, uint32_t n_vocab);

/* The last hidden row of an embedding's prompt. */
void tn_job_hidden(tn_reply *c, float *row, size_t n);

/* A choice is over: why is "stop" or "length". The last one completes the answer. */
void tn_job_close(tn_reply *c, const char *why);

/* The whole job failed: an error answer, or in a stream an error event. */
void tn_job_fail(tn_job *j, const tn_fault *f);

#endif
