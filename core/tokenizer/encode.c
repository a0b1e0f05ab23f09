/* encode: one tokenize call. Special tokens are taken out of the text first, from left to right, the longest at each
 * place; what is between them goes to the model. */
#include <stdlib.h>

#include "tok_int.h"

tn_status tn_job_nomem(tn_tok_job *job) { return tn_fail(job->err, TN_E_NOMEM, "no memory to tokenize"); }

void *tn_job_grow(void *a, size_t *cap, size_t need, size_t size)
{
  if (need <= *cap) return a;
  size_t want = *cap + *cap / 2, bytes;
  if (want < need) want = need;
  if (want < 64) want = 64;
  if (!tn_mul_size(want, size, &bytes)) return NULL;
  void *b = realloc(a, bytes);
  if (b) *cap = want;
  return b;
}

tn_status tn_job_push(tn_tok_job *job, int32_t id)
{
  if (job->n_ids == job->ids_cap) {
    int32_t *ids = tn_job_grow(job->ids, &job->ids_cap, job->n_ids + 1, sizeof *ids);
    if (!ids) return tn_job_nomem(job);
    job->ids = ids;
  }
  job->ids[job->n_ids++] = id;
  job->in_unknown = false;
  return TN_OK;
}

tn_status tn_job_push_bytes(tn_tok_job *job, const char *p, size_t n)
{
  const tn_tokenizer *t = job->t;
  bool all = true;
  for (size_t i = 0; i < n; i++) all = all && t->byte_id[(uint8_t)p[i]] >= 0;
  tn_status st = TN_OK;
  if (all) {
    for (size_t i = 0; st == TN_OK && i < n; i++) st = tn_job_push(job, t->byte_id[(uint8_t)p[i]]);
    return st;
  }
  for (size_t i = 0; st == TN_OK && i < t->n_replacement; i++) st = tn_job_push(job, t->replacement[i]);
  if (st != TN_OK || t->n_replacement > 0) return st;
  if (t->unk < 0) {
    return tn_fail(job->err, TN_E_UNSUPPORTED,
                   "the vocabulary has no token for the character that begins with byte 0x%02X, and none for unknown",
                   (unsigned)(uint8_t)p[0]);
  }
  if (!job->in_unknown) st = tn_job_push(job, t->unk);
  job->in_unknown = true;
  return st;
}

/* The longest special token that stands at p[0, n), or TN_TOKEN_NONE. */
static int32_t special_at(const tn_tokenizer *t, const char *p, size_t n, bool parse)
{
  int32_t found = TN_TOKEN_NONE;
  uint32_t node = 0;
  for (size_t i = 0; i < n && (node = tn_trie_step(&t->special, node, (uint8_t)p[i])) != 0; i++) {
    int32_t id = t->special.node[node].id;
    if (id >= 0 && (parse || t->type[id] == TN_TOKEN_USER_DEFINED)) found = id;
  }
  return found;
}

/* Where the next special token begins in p[i, n); n and *id TN_TOKEN_NONE when there is none. */
static size_t next_special(const tn_tokenizer *t, const char *p, size_t n, size_t i, bool parse, int32_t *id)
{
  *id = TN_TOKEN_NONE;
  if (!parse && !t->has_user_defined) return n;
  for (; i < n; i++) {
    if (t->special.root[(uint8_t)p[i]] == 0) continue;
    *id = special_at(t, p + i, n - i, parse);
    if (*id >= 0) return i;
  }
  return n;
}

static tn_status plain_text(tn_tok_job *job, const char *p, size_t n)
{
  if (n == 0) return TN_OK;
  job->in_unknown = false;
  switch (job->t->model) {
    case TN_TOK_BPE: return tn_bpe_text(job, p, n);
    case TN_TOK_SPM: return tn_spm_text(job, p, n);
    default: return tn_unigram_text(job, p, n);
  }
}

static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

static tn_status encode(tn_tok_job *job, const char *p, size_t n, uint32_t flags)
{
  const tn_tokenizer *t = job->t;
  bool add = flags & TN_TOKENIZE_ADD_SPECIAL, parse = flags & TN_TOKENIZE_PARSE_SPECIAL;
  tn_status st = TN_OK;
  if (add && t->add_bos) st = tn_job_push(job, t->bos);
  for (size_t i = 0; st == TN_OK && i < n;) {
    int32_t id;
    size_t at = next_special(t, p, n, i, parse, &id);
    st = plain_text(job, p + i, at - i);
    i = at;
    if (st != TN_OK || id < 0) continue;
    st = tn_job_push(job, id);
    i += t->text[id].n;
    if (t->mark[id] & TN_MARK_RSTRIP) {
      while (i < n && is_space(p[i])) i++;
    }
  }
  if (st == TN_OK && add && t->add_eos) st = tn_job_push(job, t->eos);
  return st;
}

void tn_job_clear(tn_tok_job *job)
{
  free(job->text);
  free(job->sym);
  free(job->heap);
  free(job->best);
  tn_pretok_scratch_clear(&job->match);
}

tn_status tn_tokenize(const tn_tokenizer *t, const char *text, size_t n, uint32_t flags, int32_t **ids, size_t *n_ids,
                      tn_err *err)
{
  *ids = NULL;
  *n_ids = 0;
  if (n > TN_TEXT_MAX) {
    return tn_fail(err, TN_E_ARG, "the text to tokenize has %zu bytes, the most is %zu", n, TN_TEXT_MAX);
  }
  tn_tok_job job = {.t = t, .err = err};
  tn_status st = encode(&job, text, n, flags);
  tn_job_clear(&job);
  if (st != TN_OK) {
    free(job.ids);
    return st;
  }
  *ids = job.ids;
  *n_ids = job.n_ids;
  return TN_OK;
}
