/* encode: one tokenize call. Special tokens are taken out of the text first, from left to right, the longest at each
 * place; what is between them goes to the model. */
#include <stdlib.h>
#include <string.h>

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

/* Where special tokens are looked for. */
typedef struct scan {
  const tn_tokenizer *t;
  const char *p; /* [n] the text */
  size_t n;
  bool parse; /* control tokens too */
  const tn_span *plain;
  size_t n_plain; /* spans that end behind the place at hand */
} scan;

/* Spelled as markup, "<|...|>": nothing that a text without trust may write. */
static bool is_markup(tn_str s) { return s.n > 4 && memcmp(s.p, "<|", 2) == 0 && memcmp(s.p + s.n - 2, "|>", 2) == 0; }

/* The longest special token that stands at byte i, or TN_TOKEN_NONE. */
static int32_t special_at(const scan *s, size_t i)
{
  const tn_tokenizer *t = s->t;
  int32_t found = TN_TOKEN_NONE;
  uint32_t node = 0;
  for (size_t k = i; k < s->n && (node = tn_trie_step(&t->special, node, (uint8_t)s->p[k])) != 0; k++) {
    int32_t id = t->special.node[node].id;
    if (id < 0) continue;
    bool plain = s->n_plain > 0 && s->plain[0].from <= k, user = t->type[id] == TN_TOKEN_USER_DEFINED;
    if (plain ? user && !is_markup(t->text[id]) : user || s->parse) found = id;
  }
  return found;
}

/* Where the next special token begins from byte i on; n and *id TN_TOKEN_NONE when there is none. */
static size_t next_special(scan *s, size_t i, int32_t *id)
{
  *id = TN_TOKEN_NONE;
  if (!s->parse && !s->t->has_user_defined) return s->n;
  for (; i < s->n; i++) {
    if (s->t->special.root[(uint8_t)s->p[i]] == 0) continue;
    for (; s->n_plain > 0 && s->plain[0].to <= i; s->plain++) s->n_plain--;
    *id = special_at(s, i);
    if (*id >= 0) return i;
  }
  return s->n;
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

static tn_status encode(tn_tok_job *job, scan *s, bool add)
{
  const tn_tokenizer *t = job->t;
  const char *p = s->p;
  const size_t n = s->n;
  tn_status st = TN_OK;
  if (add && t->add_bos) st = tn_job_push(job, t->bos);
  for (size_t i = 0; st == TN_OK && i < n;) {
    int32_t id;
    size_t at = next_special(s, i, &id);
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

tn_status tn_tokenize_spans(const tn_tokenizer *t, const char *text, size_t n, uint32_t flags, const tn_span *plain,
                            size_t n_plain, int32_t **ids, size_t *n_ids, tn_err *err)
{
  *ids = NULL;
  *n_ids = 0;
  if (n > TN_TEXT_MAX) {
    return tn_fail(err, TN_E_ARG, "the text to tokenize has %zu bytes, the most is %zu", n, TN_TEXT_MAX);
  }
  tn_tok_job job = {.t = t, .err = err};
  scan s = {.t = t, .p = text, .n = n, .parse = flags & TN_TOKENIZE_PARSE_SPECIAL, .plain = plain, .n_plain = n_plain};
  tn_status st = encode(&job, &s, flags & TN_TOKENIZE_ADD_SPECIAL);
  tn_job_clear(&job);
  if (st != TN_OK) {
    free(job.ids);
    return st;
  }
  *ids = job.ids;
  *n_ids = job.n_ids;
  return TN_OK;
}

tn_status tn_tokenize(const tn_tokenizer *t, const char *text, size_t n, uint32_t flags, int32_t **ids, size_t *n_ids,
                      tn_err *err)
{
  return tn_tokenize_spans(t, text, n, flags, NULL, 0, ids, n_ids, err);
}
