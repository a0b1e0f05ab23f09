/* Unigram: golden ids of SentencePiece, and an exhaustive search as the oracle. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <float.h>
#include <stdio.h>

#include "open_vocab.h"

Test(unigram, golden_ids)
{
  vocab v = vocab_open("unigram.gguf");
  golden_expect(v.t, "unigram.golden");
  cr_expect(strcmp(tn_tokenizer_model(v.t), "t5") == 0 && strcmp(tn_tokenizer_pre(v.t), "") == 0);
  vocab_close(&v);
}

Test(unigram, normal_text_comes_back)
{
  vocab v = vocab_open("unigram.gguf");
  vocab_round_trip(v.t, "the game was released in north america", 38);
  vocab_close(&v);
}

static const char *const tokens[] = {"<pad>", "</s>", "<unk>",         "\xE2\x96\x81",  "a",    "b", "ab", "ba",
                                     "aab",   "abab", "\342\226\201a", "b\xE2\x96\x81", "never"};
static const int32_t types[] = {3, 3, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 5};
static const float scores[] = {0, 0, 0, -2, -3, -3.5f, -4, -4.25f, -5, -7.5f, -3.25f, -4.5f, 0};

static vocab small(void)
{
  vocab_spec s = {.model = "t5", .tokens = tokens, .n_tokens = TN_ARRAY_LEN(tokens), .types = types, .scores = scores};
  return vocab_make(&s);
}

/* Best score of p[0, n), trying every piece at every place; the first best choice is *id for the first piece. */
static double exhaustive(const tn_tokenizer *t, const char *p, size_t n)
{
  if (n == 0) return 0;
  double best = -DBL_MAX;
  size_t one = (p[0] & 0x80) ? 3 : 1;
  bool covered = false;
  for (int32_t id = 3; id < 12; id++) {
    tn_str text = t->text[id];
    if (text.n > n || memcmp(text.p, p, text.n) != 0) continue;
    covered = covered || text.n == one;
    double s = (double)t->score[id] + exhaustive(t, p + text.n, n - text.n);
    if (s > best) best = s;
  }
  if (!covered) {
    double s = t->unknown_score + exhaustive(t, p + one, n - one);
    if (s > best) best = s;
  }
  return best;
}

Test(unigram, score_is_the_best_there_is)
{
  vocab v = small();
  cr_expect(v.t->unknown_score == -17.5);
  uint64_t x = 5;
  for (int round = 0; round < 3000; round++) {
    char text[12], marked[64] = TN_SPACE_MARK;
    x = x * 6364136223846793005u + 1442695040888963407u;
    size_t n = 1 + (size_t)(x >> 33) % sizeof text, m = TN_SPACE_MARK_N;
    for (size_t i = 0; i < n; i++) {
      x = x * 6364136223846793005u + 1442695040888963407u;
      text[i] = "aab b"[(x >> 40) % 5];
      if (text[i] != ' ') marked[m++] = text[i];
      if (text[i] == ' ') m += (size_t)sprintf(marked + m, "%s", TN_SPACE_MARK);
    }
    int32_t *ids;
    size_t n_ids, at = 0;
    cr_assert(tn_tokenize(v.t, text, n, 0, &ids, &n_ids, NULL) == TN_OK);
    double got = 0;
    for (size_t i = 0; i < n_ids; i++) {
      tn_str piece = v.t->text[ids[i]];
      cr_assert(at + piece.n <= m && memcmp(marked + at, piece.p, piece.n) == 0, "'%.*s'", (int)n, text);
      at += piece.n;
      got += (double)v.t->score[ids[i]];
    }
    double want = exhaustive(v.t, marked, m);
    cr_assert(at == m && got == want, "'%.*s': %g, want %g", (int)n, text, got, want);
    free(ids);
  }
  vocab_close(&v);
}

Test(unigram, unused_pieces_are_not_used_and_strange_runs_are_unknown_once)
{
  vocab v = small();
  vocab_expect(v.t, "never", 0, "3 2");
  vocab_expect(v.t, "axya", 0, "10 2 4");
  vocab_expect(v.t, "ab", TN_TOKENIZE_ADD_SPECIAL, "3 6 1");
  vocab_close(&v);
}
