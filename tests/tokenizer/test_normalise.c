/* SentencePiece spelling of text: space marks, prefix, trimming. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "open_vocab.h"

static void expect_text(bool prefix, bool trim, const char *text, const char *want)
{
  static tn_tokenizer t;
  t.space_prefix = prefix;
  t.trim_spaces = trim;
  tn_tok_job job = {.t = &t};
  cr_assert(tn_normalise(&job, text, strlen(text)) == TN_OK);
  char *shown = tn_strndup(job.text ? job.text : "", job.text_n), spelled[256];
  size_t o = 0;
  for (size_t i = 0; i < job.text_n; i++) { /* '_' for the mark */
    if (i + TN_SPACE_MARK_N <= job.text_n && memcmp(shown + i, TN_SPACE_MARK, TN_SPACE_MARK_N) == 0) {
      spelled[o++] = '_';
      i += TN_SPACE_MARK_N - 1;
    } else {
      spelled[o++] = shown[i];
    }
  }
  spelled[o] = '\0';
  cr_expect(eq(str, spelled, (char *)want), "prefix %d trim %d '%s'", prefix, trim, text);
  free(shown);
  tn_job_clear(&job);
}

Test(normalise, spaces_become_marks)
{
  expect_text(false, false, " a  b ", "_a__b_");
  expect_text(true, false, " a  b ", "__a__b_");
  expect_text(true, false, "a", "_a");
  expect_text(true, false, "", "");
  expect_text(true, false, " ", "__");
}

Test(normalise, trimmed_text_has_single_inner_spaces)
{
  expect_text(true, true, "  a   b  c  ", "_a_b_c");
  expect_text(false, true, "  a   b  c  ", "a_b_c");
  expect_text(true, true, "   ", "");
  expect_text(true, true, "a\n b", "_a\n_b");
}

Test(normalise, bad_bytes_stay) { expect_text(false, false, "a\xFF\xE4\xBD b", "a\xFF\xE4\xBD_b"); }
