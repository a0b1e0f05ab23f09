/* unigram: SentencePiece unigram. Of all ways to write the text as pieces, the one with the highest sum of scores: the
 * best way to every position is found from left to right (Viterbi). Sums are doubles. A character that no piece covers
 * costs 10 more than the worst piece. */
#include <float.h>
#include <stdlib.h>

#include "../utf8.h"
#include "tok_int.h"

#define UNKNOWN_PENALTY 10.0

static bool is_piece(const tn_tokenizer *t, int32_t id)
{
  return t->type[id] == TN_TOKEN_NORMAL || t->type[id] == TN_TOKEN_USER_DEFINED;
}

tn_status tn_unigram_read(tn_tokenizer *t, const tn_gguf *g, tn_err *err)
{
  tn_status st = tn_spm_read(t, g, err); /* byte tokens */
  if (st == TN_OK) st = tn_charsmap_read(&t->charsmap, g, err);
  if (st != TN_OK) return st;
  int32_t *ids = tn_zalloc((size_t)t->n_vocab, sizeof *ids);
  if (!ids) return tn_fail(err, TN_E_NOMEM, "no memory for %d pieces", t->n_vocab);
  size_t n = 0;
  double worst = 0;
  for (int32_t id = 0; id < t->n_vocab; id++) {
    if (!is_piece(t, id)) continue;
    ids[n++] = id;
    if (t->type[id] == TN_TOKEN_NORMAL && t->score[id] < worst) worst = t->score[id];
  }
  t->unknown_score = worst - UNKNOWN_PENALTY;
  st = tn_trie_build(&t->pieces, t->text, ids, n);
  free(ids);
  return st == TN_OK ? st : tn_fail(err, st, "no memory for %zu pieces", n);
}

static void offer(tn_tok_best *best, size_t from, size_t to, double score, int32_t id)
{
  if (score > best[to].score) {
    best[to].score = score;
    best[to].from = (uint32_t)from;
    best[to].id = id;
  }
}

/* Every piece that begins at byte i, and the character itself where none is just that. Returns the next character. */
static size_t search_from(const tn_tokenizer *t, tn_tok_best *best, const char *p, size_t n, size_t i)
{
  int c = tn_utf8_decode(p + i, n - i, NULL);
  size_t next = i + (c > 0 ? (size_t)c : 1);
  bool covered = false;
  uint32_t node = 0;
  for (size_t k = i; k < n && (node = tn_trie_step(&t->pieces, node, (uint8_t)p[k])) != 0; k++) {
    int32_t id = t->pieces.node[node].id;
    if (id < 0) continue;
    covered = covered || k + 1 == next;
    double score = t->type[id] == TN_TOKEN_USER_DEFINED ? 0.0 : (double)t->score[id];
    offer(best, i, k + 1, best[i].score + score, id);
  }
  if (!covered) offer(best, i, next, best[i].score + t->unknown_score, TN_TOKEN_NONE);
  return next;
}

tn_status tn_unigram_text(tn_tok_job *job, const char *p, size_t n)
{
  tn_status st = tn_normalise(job, p, n);
  if (st != TN_OK || job->text_n == 0) return st;
  const char *text = job->text;
  n = job->text_n;
  tn_tok_best *best = tn_job_grow(job->best, &job->best_cap, n + 1, sizeof *best);
  if (!best) return tn_job_nomem(job);
  job->best = best;
  for (size_t i = 0; i <= n; i++) best[i].score = -DBL_MAX;
  best[0].score = 0;
  for (size_t i = 0; i < n;) i = search_from(job->t, best, text, n, i);
  for (size_t i = n; i > 0; i = best[i].from) best[best[i].from].to = (uint32_t)i;
  for (size_t i = 0; st == TN_OK && i < n; i = best[i].to) {
    int32_t id = best[best[i].to].id;
    st = id >= 0 ? tn_job_push(job, id) : tn_job_push_bytes(job, text + i, best[i].to - i);
  }
  return st;
}
