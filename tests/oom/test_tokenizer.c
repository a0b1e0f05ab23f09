/* Loading vocabularies, tokenizing and detokenizing, with each allocation failing in turn: TN_E_NOMEM, and nothing stays
 * behind. PCRE2's own allocations are not among them. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "oom.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/vocab_file.h"

enum { BPE, SPM, UNIGRAM, KINDS };

static tn_gguf *open_kind(int kind, void **bytes)
{
  static const char *const tokens[] = {"<unk>", "<s>", "</s>", "a", "b", "ab", "\xE2\x96\x81", "\xC4\xA0", "[x]"};
  static const int32_t types[] = {2, 3, 3, 1, 1, 1, 1, 1, 4};
  static const float scores[] = {0, 0, 0, -1, -1, -1, -1, -1, 0};
  static const char *const merges[] = {"a b"};
  static const uint8_t charsmap[] = {4, 0, 0, 0, 0, 0, 0, 0, 'x', 0};
  static const char *const models[] = {"gpt2", "llama", "t5"};
  vocab_spec s = {.model = models[kind], .tokens = tokens, .n_tokens = 9, .types = types, .scores = scores};
  s.numbers[0] = (struct vocab_number){"tokenizer.ggml.unknown_token_id", 0, VOCAB_U32};
  if (kind == BPE) {
    s.pre = "gpt-2";
    s.merges = merges;
    s.n_merges = 1;
  }
  if (kind == UNIGRAM) {
    s.charsmap = charsmap;
    s.n_charsmap = sizeof charsmap;
  }
  vocab_bytes b = vocab_file(&s);
  tn_gguf *g;
  cr_assert(tn_gguf_open_mem(b.p, b.n, "made.gguf", &g, NULL) == TN_OK);
  *bytes = b.p;
  return g;
}

/* What one attempt with the n-th allocation failing must have done. True when there was no n-th allocation. */
static bool judge(tn_status st, const void *out, int64_t live, const tn_err *err, uint64_t n)
{
  if (!oom_fired()) {
    cr_expect(st == TN_OK && out != NULL, "allocation %lu: %s", (unsigned long)n, err->msg);
    return true;
  }
  cr_expect(st == TN_E_NOMEM && out == NULL, "allocation %lu: %s", (unsigned long)n, tn_status_name(st));
  cr_expect(strstr(err->msg, "no memory") != NULL, "allocation %lu: '%s'", (unsigned long)n, err->msg);
  cr_expect(oom_live() == live, "allocation %lu: %ld stay behind", (unsigned long)n, (long)(oom_live() - live));
  return false;
}

Test(oom_tokenizer, load)
{
  for (int kind = 0; kind < KINDS; kind++) {
    void *bytes;
    tn_gguf *g = open_kind(kind, &bytes);
    uint64_t n = 0;
    for (bool last = false; !last;) {
      int64_t live = oom_live();
      tn_tokenizer *t = NULL;
      tn_err err = tn_err_init();
      oom_arm(++n);
      tn_status st = tn_tokenizer_load(g, &t, &err);
      last = judge(st, t, live, &err, n);
      tn_tokenizer_free(t);
      cr_expect(oom_live() == live);
    }
    cr_expect(n > 8, "kind %d: %lu", kind, (unsigned long)n);
    tn_gguf_close(g);
    free(bytes);
  }
}

Test(oom_tokenizer, tokenize_and_back)
{
  static const char text[] = "ab a[x]b</s> ab\xFF";
  for (int kind = 0; kind < KINDS; kind++) {
    void *bytes;
    tn_gguf *g = open_kind(kind, &bytes);
    tn_tokenizer *t;
    cr_assert(tn_tokenizer_load(g, &t, NULL) == TN_OK);
    uint64_t n = 0;
    for (bool last = false; !last;) {
      int64_t live = oom_live();
      int32_t *ids;
      size_t n_ids;
      tn_err err = tn_err_init();
      oom_arm(++n);
      tn_status st = tn_tokenize(t, text, sizeof text - 1, TN_TOKENIZE_PARSE_SPECIAL, &ids, &n_ids, &err);
      last = judge(st, ids, live, &err, n);
      free(ids);
    }
    cr_expect(n > 3, "kind %d: %lu", kind, (unsigned long)n);
    char *back = NULL;
    size_t n_back;
    tn_err err = tn_err_init();
    int64_t live = oom_live();
    oom_arm(1);
    tn_status st = tn_detokenize(t, (int32_t[]){3, 5}, 2, 0, &back, &n_back, &err);
    cr_expect(judge(st, back, live, &err, 1) == false);
    tn_tokenizer_free(t);
    tn_gguf_close(g);
    free(bytes);
  }
}
