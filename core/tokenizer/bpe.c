/* bpe: byte-level byte pair encoding. A word's bytes are its first symbols; of all neighbours that may join, the pair
 * of the lowest rank does, the leftmost of equals, until none is left. A heap holds the pairs, so a word of n bytes
 * costs n log n. */
#include <stdlib.h>

#include "../utf8.h"
#include "tok_int.h"

/* The symbols of a word and room to merge them. */
static tn_status lay_out(tn_tok_job *job, const char *p, size_t n)
{
  tn_tok_sym *sym = tn_job_grow(job->sym, &job->sym_cap, n, sizeof *sym);
  if (sym) job->sym = sym;
  tn_tok_cand *heap = sym ? tn_job_grow(job->heap, &job->heap_cap, 3 * n, sizeof *heap) : NULL;
  if (!heap) return tn_job_nomem(job);
  job->heap = heap;
  for (size_t i = 0; i < n; i++) {
    sym[i] = (tn_tok_sym){.off = (uint32_t)i,
                          .n = 1,
                          .prev = i > 0 ? (uint32_t)i - 1 : TN_SYM_END,
                          .next = i + 1 < n ? (uint32_t)i + 1 : TN_SYM_END,
                          .id = job->t->byte_id[(uint8_t)p[i]]};
  }
  return TN_OK;
}

/* Queues the pair of symbol i and the one after it, if it may join. */
static void queue(tn_tok_job *job, uint32_t i)
{
  if (i == TN_SYM_END || job->sym[i].next == TN_SYM_END) return;
  uint32_t rank = tn_merges_find(&job->t->merges, job->sym[i].id, job->sym[job->sym[i].next].id);
  if (rank != TN_NO_MERGE) tn_heap_push(job, (tn_tok_cand){.key = (uint64_t)rank << 32 | i});
}

static void merge_all(tn_tok_job *job)
{
  tn_tok_sym *sym = job->sym;
  while (job->heap_n > 0) {
    tn_tok_cand c = tn_heap_pop(job);
    struct tn_merge m = job->t->merges.at[c.key >> 32];
    uint32_t i = (uint32_t)c.key, j = sym[i].next;
    if (sym[i].n == 0 || sym[i].id != m.left || j == TN_SYM_END || sym[j].id != m.right) continue; /* outdated */
    sym[i].id = m.made;
    sym[i].n += sym[j].n;
    sym[i].next = sym[j].next;
    sym[j].n = 0;
    if (sym[i].next != TN_SYM_END) sym[sym[i].next].prev = i;
    queue(job, sym[i].prev);
    queue(job, i);
  }
}

/* The token that is spelled like the word, for vocabularies that take it unmerged. Words over 1 KiB are none. */
static int32_t whole_word(const tn_tok_job *job, const char *p, size_t n)
{
  const tn_tokenizer *t = job->t;
  char text[2048];
  size_t o = 0;
  if (2 * n > sizeof text) return TN_TOKEN_NONE;
  for (size_t i = 0; i < n; i++) o += tn_utf8_encode(tn_byte_char((uint8_t)p[i]), text + o);
  int32_t id = tn_vocab_find(t, text, o);
  return id >= 0 && t->type[id] == TN_TOKEN_NORMAL ? id : TN_TOKEN_NONE;
}

tn_status tn_bpe_word(tn_tok_job *job, const char *p, size_t n)
{
  if (job->t->pre->ignore_merges) {
    int32_t id = whole_word(job, p, n);
    if (id >= 0) return tn_job_push(job, id);
  }
  tn_status st = lay_out(job, p, n);
  if (st != TN_OK) return st;
  for (uint32_t i = 0; i < n; i++) queue(job, i);
  merge_all(job);
  for (uint32_t i = 0; st == TN_OK && i != TN_SYM_END; i = job->sym[i].next) {
    tn_tok_sym s = job->sym[i];
    st = s.id >= 0 ? tn_job_push(job, s.id) : tn_job_push_bytes(job, p + s.off, s.n);
  }
  return st;
}

/* The tokens of U+FFFD, which stands for bytes that have none; none when its own bytes have none. */
static tn_status read_replacement(tn_tokenizer *t, tn_err *err)
{
  static const char text[] = "\xEF\xBF\xBD";
  for (size_t i = 0; i < 3; i++) {
    if (t->byte_id[(uint8_t)text[i]] < 0) return TN_OK;
  }
  tn_tok_job job = {.t = t, .err = err};
  tn_status st = tn_bpe_word(&job, text, 3);
  for (size_t i = 0; st == TN_OK && i < job.n_ids; i++) t->replacement[i] = job.ids[i];
  t->n_replacement = st == TN_OK ? job.n_ids : 0;
  free(job.ids);
  tn_job_clear(&job);
  return st;
}

tn_status tn_bpe_read(tn_tokenizer *t, const tn_gguf *g, tn_err *err)
{
  for (uint32_t b = 0; b < 256; b++) {
    char text[4];
    size_t n = tn_utf8_encode(tn_byte_char((uint8_t)b), text);
    int32_t id = tn_vocab_find(t, text, n);
    t->byte_id[b] = id >= 0 && t->type[id] == TN_TOKEN_NORMAL ? id : TN_TOKEN_NONE;
  }
  tn_status st = tn_merges_read(t, g, err);
  if (st == TN_OK) st = read_replacement(t, err);
  return st == TN_OK ? tn_pretok_compile(t->pre, &t->code, err) : st;
}

static tn_status each_word(void *ctx, const char *p, size_t n) { return tn_bpe_word(ctx, p, n); }

tn_status tn_bpe_text(tn_tok_job *job, const char *p, size_t n)
{
  tn_status st = TN_OK;
  for (size_t i = 0; st == TN_OK && i < n;) {
    size_t good = tn_utf8_valid(p + i, n - i), bad = 0;
    st = tn_pretok_split(&job->t->code, &job->match, p + i, good, each_word, job, job->err);
    i += good;
    while (i + bad < n && tn_utf8_decode(p + i + bad, n - i - bad, NULL) <= 0) bad++;
    if (st == TN_OK && bad > 0) st = tn_bpe_word(job, p + i, bad);
    i += bad;
  }
  return st;
}
