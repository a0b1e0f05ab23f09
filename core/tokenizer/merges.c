/* merges: the list of byte pair merges, as ids, and the hash from a pair to its rank.
 *
 * A merge whose two pieces or whose result are no tokens is refused: skipping it would give other ids than the
 * vocabulary's author meant. Of two merges of one pair the first counts. */
#include "tok_int.h"

#include <stdlib.h>
#include <string.h>

static const char key_merges[] = "tokenizer.ggml.merges";
enum { JOINED_MAX = 256 };

static size_t pair_hash(int32_t left, int32_t right)
{
  uint64_t h = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * 0x9E3779B97F4A7C15u;
  h ^= h >> 29;
  return (size_t)((h * 0xBF58476D1CE4E5B9u) >> 24);
}

uint32_t tn_merges_find(const tn_merges *m, int32_t left, int32_t right)
{
  for (size_t i = pair_hash(left, right) & m->mask;; i = (i + 1) & m->mask) {
    uint32_t r = m->slot[i];
    if (r == TN_NO_MERGE) return TN_NO_MERGE;
    if (m->at[r].left == left && m->at[r].right == right) return r;
  }
}

/* False when the pairs seem made to collide. */
static bool insert(tn_merges *m, uint32_t rank)
{
  struct tn_merge e = m->at[rank];
  size_t i = pair_hash(e.left, e.right) & m->mask;
  for (int probe = 0; probe < TN_PROBE_MAX; probe++) {
    uint32_t r = m->slot[i];
    if (r == TN_NO_MERGE) {
      m->slot[i] = rank;
      return true;
    }
    if (m->at[r].left == e.left && m->at[r].right == e.right) return true;
    i = (i + 1) & m->mask;
  }
  return false;
}

static bool is_joined(tn_str made, tn_str left, tn_str right)
{
  return made.n == left.n + right.n && memcmp(made.p, left.p, left.n) == 0 &&
         memcmp(made.p + left.n, right.p, right.n) == 0;
}

/* The token spelled left right. guess is tried first: most lists make their tokens in the order of the ids. */
static int32_t find_joined(const tn_tokenizer *t, tn_str left, tn_str right, int32_t guess)
{
  if (guess >= 0 && guess < t->n_vocab && is_joined(t->text[guess], left, right)) return guess;
  if (left.n + right.n > t->max_text) return TN_TOKEN_NONE;
  char small[JOINED_MAX], *joined = small;
  if (left.n + right.n > sizeof small) {
    joined = malloc(left.n + right.n);
    if (!joined) return TN_TOKEN_NONE;
  }
  memcpy(joined, left.p, left.n);
  memcpy(joined + left.n, right.p, right.n);
  int32_t id = tn_vocab_find(t, joined, left.n + right.n);
  if (joined != small) free(joined);
  return id;
}

/* "left right": the space that parts them is the first that is not the first byte. */
static tn_status read_one(const tn_tokenizer *t, size_t rank, tn_str text, int32_t guess, struct tn_merge *out,
                          tn_err *err)
{
  char shown[TN_SHOWN];
  const char *space = text.n > 1 ? memchr(text.p + 1, ' ', text.n - 1) : NULL;
  if (!space || space + 1 == text.p + text.n) {
    return tn_fail(err, TN_E_ARG, "%s[%zu] '%s' is no pair with a space between", key_merges, rank,
                   tn_tok_show(text, shown));
  }
  tn_str left = {text.p, (size_t)(space - text.p)};
  tn_str right = {space + 1, text.n - left.n - 1};
  out->left = tn_vocab_find(t, left.p, left.n);
  out->right = tn_vocab_find(t, right.p, right.n);
  out->made = find_joined(t, left, right, guess);
  if (out->left >= 0 && out->right >= 0 && out->made >= 0) return TN_OK;
  const char *which = out->left < 0 ? "left piece" : out->right < 0 ? "right piece" : "result";
  return tn_fail(err, TN_E_ARG, "%s[%zu] '%s': its %s is no token of the vocabulary", key_merges, rank,
                 tn_tok_show(text, shown), which);
}

tn_status tn_merges_read(tn_tokenizer *t, const tn_gguf *g, tn_err *err)
{
  tn_merges *m = &t->merges;
  tn_gguf_arr a;
  if (!tn_gguf_array(g, key_merges, &a)) return tn_fail(err, TN_E_ARG, "%s is missing or no array", key_merges);
  if (a.type != TN_GGUF_STR)
    return tn_fail(err, TN_E_ARG, "%s is an array of type %u, not strings", key_merges, a.type);
  size_t slots;
  if (a.n >= INT32_MAX || !tn_hash_room((size_t)a.n, &slots)) {
    return tn_fail(err, TN_E_ARG, "%s has %llu merges, the most is %d", key_merges, (unsigned long long)a.n,
                   INT32_MAX - 1);
  }
  m->n = (size_t)a.n;
  m->at = tn_zalloc(m->n, sizeof *m->at);
  m->slot = malloc(slots * sizeof *m->slot);
  if (!m->at || !m->slot) return tn_fail(err, TN_E_NOMEM, "no memory for %zu merges", m->n);
  memset(m->slot, 0xFF, slots * sizeof *m->slot);
  m->mask = slots - 1;
  int32_t guess = 0;
  for (size_t i = 0; i < m->n; i++) {
    tn_str text;
    if (!tn_gguf_arr_str(&a, i, &text)) return tn_fail(err, TN_E_ARG, "%s[%zu] is no string", key_merges, i);
    tn_status st = read_one(t, i, text, guess, &m->at[i], err);
    if (st != TN_OK) return st;
    guess = m->at[i].made + 1;
    if (!insert(m, (uint32_t)i)) {
      return tn_fail(err, TN_E_ARG, "%s: the pairs up to number %zu collide in their hash, %d in a row", key_merges, i,
                     TN_PROBE_MAX);
    }
  }
  return TN_OK;
}

void tn_merges_clear(tn_merges *m)
{
  free(m->at);
  free(m->slot);
  *m = (tn_merges){0};
}
