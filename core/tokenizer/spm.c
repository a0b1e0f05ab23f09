/* spm: SentencePiece BPE. Characters are the first symbols; of all neighbours whose joined text is a piece, the pair
 * with the highest score joins, the leftmost of equals, until none is left. A character that is no piece becomes its
 * bytes.
 *
 * Control, unknown and byte tokens are no pieces here: their texts, typed by a user, stay plain text.
 *
 * The text is cut before a space mark wherever no piece of the vocabulary reads across, which no merge could either:
 * so words are merged one by one, and the result is that of the whole text. */
#include <stdio.h>
#include <string.h>

#include "../utf8.h"
#include "tok_int.h"

static bool is_piece(const tn_tokenizer *t, int32_t id)
{
  uint8_t type = t->type[id];
  return type != TN_TOKEN_CONTROL && type != TN_TOKEN_UNKNOWN && type != TN_TOKEN_BYTE;
}

static int32_t find_piece(const tn_tokenizer *t, const char *p, size_t n)
{
  if (n > t->max_text) return TN_TOKEN_NONE;
  int32_t id = tn_vocab_find(t, p, n);
  return id >= 0 && is_piece(t, id) ? id : TN_TOKEN_NONE;
}

static bool mark_at(const char *p) { return memcmp(p, TN_SPACE_MARK, TN_SPACE_MARK_N) == 0; }

static void note_space_inside(tn_tokenizer *t, tn_str text)
{
  for (size_t i = 1; i + TN_SPACE_MARK_N <= text.n; i++) {
    if (text.p[i] != TN_SPACE_MARK[0] || !mark_at(text.p + i)) continue;
    if (i < TN_SPACE_MARK_N || !mark_at(text.p + i - TN_SPACE_MARK_N)) t->space_after[(uint8_t)text.p[i - 1]] = true;
  }
}

tn_status tn_spm_read(tn_tokenizer *t, const tn_gguf *g, tn_err *err)
{
  (void)g;
  (void)err;
  for (unsigned b = 0; b < 256; b++) {
    char text[8];
    int n = snprintf(text, sizeof text, "<0x%02X>", b);
    int32_t id = tn_vocab_find(t, text, (size_t)n);
    text[0] = (char)b;
    if (id < 0) id = tn_vocab_find(t, text, 1);
    t->byte_id[b] = id;
  }
  for (int32_t id = 0; id < t->n_vocab; id++) {
    if (is_piece(t, id)) note_space_inside(t, t->text[id]);
  }
  return TN_OK;
}

/* Scores in the order of unsigned numbers, the highest first. */
static uint32_t score_key(float score)
{
  float plain = score + 0.0f; /* no negative zero */
  uint32_t bits;
  memcpy(&bits, &plain, sizeof bits);
  return bits & 0x80000000u ? bits : ~(bits | 0x80000000u);
}

/* Queues symbol i and the one after it, if their text is a piece. */
static void queue(tn_tok_job *job, const char *p, uint32_t i)
{
  if (i == TN_SYM_END || job->sym[i].next == TN_SYM_END) return;
  tn_tok_sym a = job->sym[i];
  uint32_t n = a.n + job->sym[a.next].n;
  int32_t id = find_piece(job->t, p + a.off, n);
  if (id < 0) return;
  tn_heap_push(job, (tn_tok_cand){.key = (uint64_t)score_key(job->t->score[id]) << 32 | i, .n = n, .id = id});
}

static void merge_all(tn_tok_job *job, const char *p)
{
  tn_tok_sym *sym = job->sym;
  while (job->heap_n > 0) {
    tn_tok_cand c = tn_heap_pop(job);
    uint32_t i = (uint32_t)c.key, j = sym[i].next;
    if (sym[i].n == 0 || j == TN_SYM_END || sym[i].n + sym[j].n != c.n) continue; /* outdated */
    sym[i].id = c.id;
    sym[i].n = c.n;
    sym[i].next = sym[j].next;
    sym[j].n = 0;
    if (sym[i].next != TN_SYM_END) sym[sym[i].next].prev = i;
    queue(job, p, sym[i].prev);
    queue(job, p, i);
  }
}

/* One symbol a character, and a symbol for every bad byte. Returns how many; the arrays have room for n. */
static uint32_t lay_out(tn_tok_job *job, const char *p, size_t n)
{
  uint32_t count = 0;
  for (size_t i = 0; i < n; count++) {
    int len = tn_utf8_decode(p + i, n - i, NULL);
    if (len <= 0) len = 1;
    job->sym[count] =
        (tn_tok_sym){.off = (uint32_t)i, .n = (uint32_t)len, .prev = count - 1, .next = count + 1, .id = TN_TOKEN_NONE};
    i += (size_t)len;
  }
  job->sym[0].prev = TN_SYM_END;
  job->sym[count - 1].next = TN_SYM_END;
  return count;
}

static tn_status spm_word(tn_tok_job *job, const char *p, size_t n)
{
  tn_tok_sym *sym = tn_job_grow(job->sym, &job->sym_cap, n, sizeof *sym);
  if (sym) job->sym = sym;
  tn_tok_cand *heap = sym ? tn_job_grow(job->heap, &job->heap_cap, 3 * n, sizeof *heap) : NULL;
  if (!heap) return tn_job_nomem(job);
  job->heap = heap;
  uint32_t count = lay_out(job, p, n);
  for (uint32_t i = 0; i < count; i++) queue(job, p, i);
  merge_all(job, p);
  tn_status st = TN_OK;
  for (uint32_t i = 0; st == TN_OK && i != TN_SYM_END; i = sym[i].next) {
    int32_t id = sym[i].id >= 0 ? sym[i].id : find_piece(job->t, p + sym[i].off, sym[i].n);
    st = id >= 0 ? tn_job_push(job, id) : tn_job_push_bytes(job, p + sym[i].off, sym[i].n);
  }
  return st;
}

/* End of the word that begins at p + i: the next space mark that nothing reads across to, or n. */
static size_t word_end(const tn_tokenizer *t, const char *p, size_t n, size_t i)
{
  for (i++; i + TN_SPACE_MARK_N <= n; i++) {
    const char *mark = memchr(p + i, TN_SPACE_MARK[0], n - i);
    if (!mark) break;
    i = (size_t)(mark - p);
    if (i + TN_SPACE_MARK_N > n) break;
    if (!mark_at(mark) || t->space_after[(uint8_t)p[i - 1]]) continue;
    if (i < TN_SPACE_MARK_N || !mark_at(mark - TN_SPACE_MARK_N)) return i;
  }
  return n;
}

tn_status tn_spm_text(tn_tok_job *job, const char *p, size_t n)
{
  tn_status st = tn_normalise(job, p, n);
  for (size_t i = 0; st == TN_OK && i < job->text_n;) {
    size_t end = word_end(job->t, job->text, job->text_n, i);
    st = spm_word(job, job->text + i, end - i);
    i = end;
  }
  return st;
}
