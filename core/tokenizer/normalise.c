/* normalise: text as SentencePiece writes it before it looks for pieces: characters replaced by the table of the
 * model, spaces as U+2581, one of them in front where the model asks for it, and, where it asks, no others around the
 * text and no two in a row. */
#include <string.h>

#include "../utf8.h"
#include "tok_int.h"

/* What stands at p: a replacement of the table, or the character (or the one bad byte) itself. Returns its length. */
static size_t next_chunk(const tn_tokenizer *t, const char *p, size_t n, tn_str *chunk)
{
  size_t len = tn_charsmap_match(&t->charsmap, p, n, chunk);
  if (len > 0) return len;
  int c = tn_utf8_decode(p, n, NULL);
  *chunk = (tn_str){p, c > 0 ? (size_t)c : 1};
  return chunk->n;
}

/* Room for n more bytes of result. */
static bool reserve(tn_tok_job *job, size_t n)
{
  if (job->text_cap - job->text_n >= n) return true;
  char *text = tn_job_grow(job->text, &job->text_cap, job->text_n + n, 1);
  if (text) job->text = text;
  return text != NULL;
}

static void put_space(tn_tok_job *job)
{
  memcpy(job->text + job->text_n, TN_SPACE_MARK, TN_SPACE_MARK_N);
  job->text_n += TN_SPACE_MARK_N;
}

tn_status tn_normalise(tn_tok_job *job, const char *p, size_t n)
{
  const tn_tokenizer *t = job->t;
  bool begun = !t->space_prefix; /* nothing to put before the next byte */
  bool in_text = false;          /* something was written: a space now may be an inner one */
  bool pending = false;          /* trim_spaces: a space that counts only if more text follows */
  job->text_n = 0;
  for (size_t i = 0; i < n;) {
    tn_str chunk;
    i += next_chunk(t, p + i, n - i, &chunk);
    if (!reserve(job, (chunk.n + 2) * TN_SPACE_MARK_N)) return tn_job_nomem(job);
    for (size_t k = 0; k < chunk.n; k++) {
      bool space = chunk.p[k] == ' ';
      if (space && t->trim_spaces) {
        pending = in_text;
        continue;
      }
      if (!begun || pending) put_space(job);
      begun = in_text = true;
      pending = false;
      if (space) {
        put_space(job);
      } else {
        job->text[job->text_n++] = chunk.p[k];
      }
    }
  }
  return TN_OK;
}
