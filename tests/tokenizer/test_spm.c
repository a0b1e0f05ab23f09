/* SentencePiece BPE: published vectors, golden ids of real models, and a naive merge loop over the whole text. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>

#include "open_vocab.h"

Test(spm, published_vectors)
{
  vocab v = vocab_open("llama-spm.gguf");
  vectors_expect(v.t, "llama-spm.gguf");
  vocab_close(&v);
}

Test(spm, golden_ids_of_llama)
{
  vocab v = vocab_open("llama-spm.gguf");
  golden_expect(v.t, "llama-spm.golden");
  vocab_close(&v);
}

Test(spm, golden_ids_of_gemma)
{
  vocab v = vocab_open_model("gemma-3-270m-q4_k_m.gguf");
  golden_expect(v.t, "gemma3.golden");
  vocab_expect(v.t, "a</s>b", 0, "236746 212 236763");
  vocab_close(&v);
}

/* What the tokenizer that trained the model gives for text after its first special token: a space goes before it. */
Test(spm, text_after_a_special_token)
{
  vocab v = vocab_open("llama-spm.gguf");
  vocab_expect(v.t, "<s>[INST] hi", TN_TOKENIZE_PARSE_SPECIAL, "1 518 25580 29962 7251");
  vocab_expect(v.t, "[INST] hi", TN_TOKENIZE_ADD_SPECIAL, "1 518 25580 29962 7251");
  vocab_expect(v.t, "<s> hi", TN_TOKENIZE_PARSE_SPECIAL, "1 29871 7251");
  vocab_close(&v);
}

Test(spm, text_comes_back)
{
  size_t n;
  char *wiki = data_read("wikitext-2-valid-60k.txt", &n);
  vocab v = vocab_open("llama-spm.gguf");
  vocab_round_trip(v.t, wiki, n);
  vocab_close(&v);
  v = vocab_open_model("gemma-3-270m-q4_k_m.gguf");
  vocab_round_trip(v.t, wiki, n);
  vocab_close(&v);
  free(wiki);
}

Test(spm, control_tokens_are_plain_text_unless_parsed)
{
  vocab v = vocab_open("llama-spm.gguf");
  char *got = vocab_ids(v.t, "x</s><s><unk><0x41>", 19, 0);
  int32_t *ids;
  size_t n;
  cr_assert(tn_tokenize(v.t, "x</s><s><unk><0x41>", 19, 0, &ids, &n, NULL) == TN_OK);
  for (size_t i = 0; i < n; i++) cr_expect(tn_token_type(v.t, ids[i]) == TN_TOKEN_NORMAL, "%s", got);
  free(ids);
  free(got);
  vocab_close(&v);
}

Test(spm, bad_bytes_become_byte_tokens)
{
  vocab v = vocab_open("llama-spm.gguf");
  int32_t ff = tn_token_find(v.t, "<0xFF>", 6), c3 = tn_token_find(v.t, "<0xC3>", 6);
  char want[64];
  cr_assert(ff == 258);
  sprintf(want, "263 %d 29890", ff);
  vocab_expect(v.t, "a\377b", 0, want);
  sprintf(want, "29871 %d 29898", c3);
  vocab_expect(v.t, "\xC3(", 0, want);
  vocab_round_trip(v.t, "\xFE\xF0\x9F(\xE4\xBD\xA0\x80", 8);
  vocab_close(&v);
}

/* A vocabulary whose pieces read across spaces: "o_w" and "_a_". Of "ee" and "el" neither goes first: 0 equals -0. */
static const char *const tokens[] = {"<unk>",
                                     "<s>",
                                     "</s>",
                                     "\xE2\x96\x81",
                                     "h",
                                     "e",
                                     "l",
                                     "o",
                                     "w",
                                     "a",
                                     "ll",
                                     "he",
                                     "o\xE2\x96\x81w",
                                     "\342\226\201a\342\226\201",
                                     "\xE2\x96\x81w",
                                     "\342\226\201a",
                                     "\xE2\x96\x81\xE2\x96\x81",
                                     "ow",
                                     "lo",
                                     "oo",
                                     "ee",
                                     "el"};
static const int32_t types[] = {2, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
static const float scores[] = {0, 0, 0, -9, -9, -9, -9, -9, -9, -9, -1, -2, -3, -4, -5, -4, 2.5f, 3, 1, 7, -0.0f, 0};

static vocab crossing(void)
{
  vocab_spec s = {
      .model = "llama", .tokens = tokens, .n_tokens = TN_ARRAY_LEN(tokens), .types = types, .scores = scores};
  s.numbers[0] = (struct vocab_number){"tokenizer.ggml.add_bos_token", 0, VOCAB_BOOL};
  return vocab_make(&s);
}

static bool is_piece(const tn_tokenizer *t, int32_t id) { return id >= 0 && t->type[id] == TN_TOKEN_NORMAL; }

/* Merges all of marked text by looking for the highest score over and over. Ids as text. */
static void naive(const tn_tokenizer *t, const char *p, size_t n, char *out)
{
  size_t end[256], k = 0;
  for (size_t i = 0; i < n; k++) {
    i += (p[i] & 0x80) ? 3 : 1;
    end[k] = i;
  }
  for (;;) {
    size_t at = SIZE_MAX;
    float best = 0;
    for (size_t i = 0; i + 1 < k; i++) {
      size_t from = i ? end[i - 1] : 0;
      int32_t id = tn_vocab_find(t, p + from, end[i + 1] - from);
      if (!is_piece(t, id) || (at != SIZE_MAX && t->score[id] <= best)) continue;
      at = i;
      best = t->score[id];
    }
    if (at == SIZE_MAX) break;
    memmove(end + at, end + at + 1, (--k - at) * sizeof *end);
  }
  size_t o = 0;
  for (size_t i = 0; i < k; i++) {
    size_t from = i ? end[i - 1] : 0;
    o += (size_t)sprintf(out + o, i ? " %d" : "%d", tn_vocab_find(t, p + from, end[i] - from));
  }
}

Test(spm, merges_as_the_naive_loop_over_the_whole_text_does)
{
  vocab v = crossing();
  cr_expect(v.t->space_after['o'] && v.t->space_after['a'] && !v.t->space_after['h'] && !v.t->space_after['w']);
  uint64_t x = 3;
  for (int round = 0; round < 20000; round++) {
    char text[40], marked[200], want[800];
    x = x * 6364136223846793005u + 1442695040888963407u;
    size_t n = 1 + (size_t)(x >> 33) % sizeof text, m = TN_SPACE_MARK_N;
    memcpy(marked, TN_SPACE_MARK, m);
    for (size_t i = 0; i < n; i++) {
      x = x * 6364136223846793005u + 1442695040888963407u;
      text[i] = "helowa   "[(x >> 40) % 9];
      if (text[i] == ' ') {
        memcpy(marked + m, TN_SPACE_MARK, TN_SPACE_MARK_N);
        m += TN_SPACE_MARK_N;
      } else {
        marked[m++] = text[i];
      }
    }
    naive(v.t, marked, m, want);
    char *got = vocab_ids(v.t, text, n, 0);
    cr_assert(strcmp(got, want) == 0, "'%.*s': %s, want %s", (int)n, text, got, want);
    free(got);
  }
  vocab_close(&v);
}

Test(spm, without_byte_tokens_a_run_of_strange_characters_is_unknown_once)
{
  vocab v = crossing();
  vocab_expect(v.t, "hx\xE4\xBD\xA0yh", 0, "3 4 0 4");
  vocab_close(&v);
}
