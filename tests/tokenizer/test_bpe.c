/* Byte-level BPE: published vectors, golden ids of a real model, and a naive merge loop as the oracle. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>

#include "open_vocab.h"

Test(bpe, published_vectors)
{
  static const char *const names[] = {"gpt-2.gguf", "deepseek-coder.gguf"};
  for (size_t i = 0; i < TN_ARRAY_LEN(names); i++) {
    vocab v = vocab_open(names[i]);
    vectors_expect(v.t, names[i]);
    vocab_close(&v);
  }
}

Test(bpe, golden_ids_of_smollm2)
{
  vocab v = vocab_open_model("smollm2-135m-instruct-q4_1.gguf");
  golden_expect(v.t, "smollm2.golden");
  vocab_close(&v);
}

Test(bpe, text_comes_back)
{
  size_t n;
  char *wiki = data_read("wikitext-2-valid-60k.txt", &n);
  vocab v = vocab_open_model("smollm2-135m-instruct-q4_1.gguf");
  vocab_round_trip(v.t, wiki, n);
  vocab_close(&v);
  free(wiki);
}

/* Merges a word by looking for the lowest rank over and over. Ids as text. */
static void naive(const tn_tokenizer *t, const char *p, size_t n, char *out)
{
  int32_t ids[64];
  for (size_t i = 0; i < n; i++) ids[i] = t->byte_id[(uint8_t)p[i]];
  for (;;) {
    uint32_t best = TN_NO_MERGE;
    size_t at = 0;
    for (size_t i = 0; i + 1 < n; i++) {
      uint32_t r = tn_merges_find(&t->merges, ids[i], ids[i + 1]);
      if (r < best) {
        best = r;
        at = i;
      }
    }
    if (best == TN_NO_MERGE) break;
    ids[at] = t->merges.at[best].made;
    memmove(ids + at + 1, ids + at + 2, (--n - at - 1) * sizeof *ids);
  }
  size_t o = 0;
  for (size_t i = 0; i < n; i++) o += (size_t)sprintf(out + o, i ? " %d" : "%d", ids[i]);
}

Test(bpe, merges_as_the_naive_loop_does)
{
  vocab v = vocab_open("gpt-2.gguf");
  uint64_t x = 7;
  for (int round = 0; round < 20000; round++) {
    char word[48], want[800];
    x = x * 6364136223846793005u + 1442695040888963407u;
    size_t n = 1 + (size_t)(x >> 33) % sizeof word;
    for (size_t i = 0; i < n; i++) {
      x = x * 6364136223846793005u + 1442695040888963407u;
      word[i] = "etaoinshrdlETA"[(x >> 40) % (round % 2 ? 14 : 3)];
    }
    naive(v.t, word, n, want);
    char *got = vocab_ids(v.t, word, n, 0);
    cr_assert(strcmp(got, want) == 0, "'%.*s': %s, want %s", (int)n, word, got, want);
    free(got);
  }
  vocab_close(&v);
}

Test(bpe, bad_bytes_are_words_of_their_own_and_come_back)
{
  static const char *const texts[] = {"a\377b",       "\xC3(",   "caf\xC3", "\xE4\xBDx\xE4\xBD\xA0",
                                      "\xF0\x9F\x99", "\x80\x81"};
  vocab v = vocab_open("gpt-2.gguf");
  for (size_t i = 0; i < TN_ARRAY_LEN(texts); i++) vocab_round_trip(v.t, texts[i], strlen(texts[i]));
  char want[64];
  sprintf(want, "%d %d %d", v.t->byte_id['a'], v.t->byte_id[0xFF], v.t->byte_id['b']);
  vocab_expect(v.t, texts[0], 0, want);
  vocab_round_trip(v.t, "nul\0inside", 10);
  vocab_close(&v);
}

Test(bpe, a_byte_without_a_token_is_a_replacement_character)
{
  vocab v = vocab_open("deepseek-coder.gguf");
  cr_assert(v.t->byte_id[0xFF] == TN_TOKEN_NONE && v.t->n_replacement > 0);
  char *bad = vocab_ids(v.t, "a\xFF", 2, 0), *good = vocab_ids(v.t, "a\xEF\xBF\xBD", 4, 0);
  char *last = strrchr(good, ' ');
  cr_expect(last != NULL && strcmp(strrchr(bad, ' '), last) == 0, "%s, want %s", bad, good);
  free(bad);
  free(good);
  vocab_close(&v);
}

Test(bpe, a_megabyte_of_one_letter)
{
  enum { N = 1 << 20 };
  char *text = malloc(N);
  cr_assert(text != NULL);
  memset(text, 'a', N);
  vocab v = vocab_open("gpt-2.gguf");
  uint64_t t0 = tn_now_ns();
  vocab_round_trip(v.t, text, N);
  double seconds = (double)(tn_now_ns() - t0) / 1e9;
  cr_expect(seconds < 20, "%.1f s", seconds);
  vocab_close(&v);
  free(text);
}

/* Vocabulary of the bytes, "he" and "hen" by merges, and " hello" and "zz", which no merge makes. */
static vocab small(const char *pre)
{
  static char store[256][3];
  static const char *tokens[260];
  static const char *const merges[] = {"h e", "he n"};
  vocab_byte_tokens(store, tokens);
  tokens[256] = "he";
  tokens[257] = "hen";
  tokens[258] = "\xC4\xA0hello";
  tokens[259] = "zz";
  vocab_spec s = {.model = "gpt2", .pre = pre, .tokens = tokens, .n_tokens = 260, .merges = merges, .n_merges = 2};
  return vocab_make(&s);
}

Test(bpe, a_whole_word_is_taken_unmerged_where_the_pattern_says_so)
{
  vocab merged = small("gpt-2"), whole = small("llama3");
  vocab_expect(merged.t, "hen hello", 0, "257 32 256 108 108 111");
  vocab_expect(whole.t, "hen hello", 0, "257 258");
  vocab_expect(merged.t, "zz", 0, "122 122");
  vocab_expect(whole.t, "zz", 0, "259");
  vocab_expect(whole.t, "zzz", 0, "122 122 122");
  vocab_close(&merged);
  vocab_close(&whole);
}

Test(bpe, a_character_without_any_token_is_unknown_or_an_error)
{
  static const char *const tokens[] = {"a", "<unk>"};
  static const char *const merges[] = {"a a"};
  vocab_spec s = {.model = "gpt2", .pre = "gpt-2", .tokens = tokens, .n_tokens = 2, .merges = merges, .n_merges = 0};
  vocab v = vocab_make(&s);
  vocab_expect(v.t, "aa", 0, "0 0");
  char *got = vocab_ids(v.t, "ab", 2, 0);
  cr_expect(strstr(got, "error: the vocabulary has no token for the character that begins with byte 0x62") == got, "%s",
            got);
  free(got);
  vocab_close(&v);
  s.numbers[0] = (struct vocab_number){"tokenizer.ggml.unknown_token_id", 1, VOCAB_U32};
  v = vocab_make(&s);
  vocab_expect(v.t, "abcba", 0, "0 1 0");
  vocab_close(&v);
}
