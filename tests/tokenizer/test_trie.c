/* The trie: what a linear search over all keys finds at every place of a text. */
#include "tokenizer/trie.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static const char *const words[] = {"a", "ab", "abc", "abd", "b", "\xFF", "\x01z", "zzzzzz", "ab", "", "bc"};

static void fill(tn_str *text, int32_t *ids)
{
  for (size_t i = 0; i < TN_ARRAY_LEN(words); i++) {
    text[i] = (tn_str){words[i], strlen(words[i])};
    ids[i] = (int32_t)(TN_ARRAY_LEN(words) - 1 - i); /* not in order */
  }
}

/* Ids of the keys that begin p[0, n), shortest first; equal keys give the lowest. */
static size_t linear(const char *p, size_t n, int32_t *found)
{
  size_t k = 0;
  for (size_t len = 1; len <= n; len++) {
    for (size_t i = 0; i < TN_ARRAY_LEN(words); i++) {
      if (strlen(words[i]) != len || memcmp(words[i], p, len) != 0) continue;
      found[k++] = (int32_t)i;
      break;
    }
  }
  return k;
}

Test(trie, finds_what_a_linear_search_finds)
{
  tn_str text[TN_ARRAY_LEN(words)];
  int32_t ids[TN_ARRAY_LEN(words)];
  fill(text, ids);
  tn_trie t;
  cr_assert(tn_trie_build(&t, text, ids, TN_ARRAY_LEN(words)) == TN_OK);
  static const char hay[] = "abcabdxab\xFF\x01zzzzzzzbcabcc";
  size_t n = sizeof hay - 1, hits = 0;
  for (size_t i = 0; i < n; i++) {
    int32_t want[16];
    size_t k = 0, n_want = linear(hay + i, n - i, want);
    uint32_t node = 0;
    for (size_t j = i; j < n && (node = tn_trie_step(&t, node, (uint8_t)hay[j])) != 0; j++) {
      if (t.node[node].id < 0) continue;
      cr_assert(k < n_want && t.node[node].id == want[k], "at %zu", i);
      k++;
    }
    cr_assert(k == n_want, "at %zu: %zu of %zu", i, k, n_want);
    hits += k;
  }
  cr_expect(hits == 23, "%zu", hits);
  tn_trie_clear(&t);
}

Test(trie, empty_sets_match_nothing)
{
  tn_str text[1] = {{"", 0}};
  int32_t ids[1] = {0};
  tn_trie t;
  cr_assert(tn_trie_build(&t, text, ids, 1) == TN_OK);
  for (unsigned b = 0; b < 256; b++) cr_expect(tn_trie_step(&t, 0, (uint8_t)b) == 0);
  tn_trie_clear(&t);
  cr_assert(tn_trie_build(&t, text, ids, 0) == TN_OK);
  tn_trie_clear(&t);
}

Test(trie, holds_256_children)
{
  char bytes[256];
  tn_str text[256];
  int32_t ids[256];
  for (int i = 0; i < 256; i++) {
    bytes[i] = (char)i;
    text[i] = (tn_str){&bytes[i], 1};
    ids[i] = i;
  }
  tn_trie t;
  cr_assert(tn_trie_build(&t, text, ids, 256) == TN_OK);
  for (int i = 0; i < 256; i++) cr_expect(t.node[tn_trie_step(&t, 0, (uint8_t)i)].id == i);
  cr_expect(t.n_nodes == 257);
  tn_trie_clear(&t);
}
