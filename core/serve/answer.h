/* answer: the JSON of an answer, as OpenAI's two routes give it. Each returns a new reference, NULL without memory.
 *
 * Thread rule: the engine thread (they read the job). */
#ifndef TN_CORE_SERVE_ANSWER_H
#define TN_CORE_SERVE_ANSWER_H

#include "serve/job.h"

/* One token with its law: {"token", "logprob", "bytes", "top_logprobs"}. */
json_t *tn_answer_entry(const tn_job *j, const tn_job_token *t);

/* A chunk of a stream that says: the role (text NULL), or text, logprobs and tokens (either may be NULL; references are
 * taken over), or why it is over. */
json_t *tn_answer_chunk(const tn_reply *c, const tn_str *text, json_t *entries, json_t *tokens, const char *finish);

/* The chunk with the usage and no choices. */
json_t *tn_answer_usage_chunk(const tn_job *j);

/* The answer in one piece. */
json_t *tn_answer_whole(tn_job *j);

/* A row as a vector of length 1, which row then holds: a list, or base64 of its little-endian f32. */
json_t *tn_answer_vector(float *row, size_t n, bool base64);
json_t *tn_answer_embeddings(const tn_job *j);

/* Law of a prompt's token as vLLM tells it: {"id": {"logprob", "rank", "decoded_token"}, ...}. */
json_t *tn_answer_prompt_entry(const tn_job *j, int32_t id, const float *row, uint32_t n_vocab, uint32_t n_top);

/* A string of these bytes; what is no UTF-8 becomes U+FFFD. */
json_t *tn_answer_text(const char *bytes, size_t n);

/* A token's text; what is no UTF-8 becomes U+FFFD. */
json_t *tn_answer_piece(const tn_tokenizer *t, int32_t id);

#endif
