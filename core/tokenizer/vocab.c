/* vocab: the token lists of the file, and the hash from text to id.
 *
 * The hash borrows the texts. A file made to collide in it is refused: no walk is longer than TN_PROBE_MAX, where an
 * honest half-full table of a million texts needs under a hundred steps. */
#include "tok_int.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char key_tokens[] = "tokenizer.ggml.tokens";
static const char key_types[] = "tokenizer.ggml.token_type";
static const char key_scores[] = "tokenizer.ggml.scores";

static uint64_t mix(uint64_t h, uint64_t v)
{
  h = (h ^ v) * 0x9E3779B97F4A7C15u;
  return h ^ (h >> 32);
}

uint64_t tn_hash_bytes(const char *p, size_t n)
{
  uint64_t h = mix(0x243F6A8885A308D3u, n), v;
  while (n >= sizeof v) {
    memcpy(&v, p, sizeof v);
    h = mix(h, v);
    p += sizeof v;
    n -= sizeof v;
  }
  if (n >= 4) { /* two reads that overlap */
    uint32_t a, b;
    memcpy(&a, p, sizeof a);
    memcpy(&b, p + n - sizeof b, sizeof b);
    h = mix(h, (uint64_t)a << 32 | b);
  } else if (n > 0) {
    const uint8_t *u = (const uint8_t *)p;
    h = mix(h, (uint64_t)u[0] << 16 | (uint64_t)u[n / 2] << 8 | u[n - 1]);
  }
  return mix(h, 0x452821E638D01377u);
}

bool tn_hash_room(size_t n, size_t *slots)
{
  size_t s = 16;
  while (s / 2 < n) {
    if (s > SIZE_MAX / 2) return false;
    s *= 2;
  }
  *slots = s;
  return true;
}

/* memcmp(a, b, n) == 0, short texts without the call. */
static inline bool same(const char *a, const char *b, size_t n)
{
  if (n >= 8) return memcmp(a, b, n) == 0;
  if (n >= 4) {
    uint32_t x[2], y[2];
    memcpy(&x[0], a, 4);
    memcpy(&x[1], a + n - 4, 4);
    memcpy(&y[0], b, 4);
    memcpy(&y[1], b + n - 4, 4);
    return x[0] == y[0] && x[1] == y[1];
  }
  return n == 0 || (a[0] == b[0] && a[n / 2] == b[n / 2] && a[n - 1] == b[n - 1]);
}

int32_t tn_vocab_find(const tn_tokenizer *t, const char *p, size_t n)
{
  uint64_t h = tn_hash_bytes(p, n);
  uint32_t tag = (uint32_t)(h >> 32);
  for (size_t i = (size_t)h & t->index.mask;; i = (i + 1) & t->index.mask) {
    struct tn_vocab_slot s = t->index.slot[i];
    if (s.id == TN_TOKEN_NONE) return TN_TOKEN_NONE;
    if (s.tag == tag && t->text[s.id].n == n && same(t->text[s.id].p, p, n)) return s.id;
  }
}

/* False when the texts seem made to collide. A text that is there already keeps its lower id. */
static bool insert(tn_tokenizer *t, int32_t id)
{
  tn_str text = t->text[id];
  uint64_t h = tn_hash_bytes(text.p, text.n);
  uint32_t tag = (uint32_t)(h >> 32);
  size_t i = (size_t)h & t->index.mask;
  for (int probe = 0; probe < TN_PROBE_MAX; probe++) {
    struct tn_vocab_slot *s = &t->index.slot[i];
    if (s->id == TN_TOKEN_NONE) {
      *s = (struct tn_vocab_slot){tag, id};
      return true;
    }
    if (s->tag == tag && t->text[s->id].n == text.n && same(t->text[s->id].p, text.p, text.n)) return true;
    i = (i + 1) & t->index.mask;
  }
  return false;
}

static tn_status build_index(tn_tokenizer *t, tn_err *err)
{
  size_t slots;
  if (!tn_hash_room((size_t)t->n_vocab, &slots)) return tn_fail(err, TN_E_NOMEM, "no memory for the vocabulary");
  t->index.slot = malloc(slots * sizeof *t->index.slot);
  if (!t->index.slot) return tn_fail(err, TN_E_NOMEM, "no memory for the vocabulary's index");
  memset(t->index.slot, 0xFF, slots * sizeof *t->index.slot);
  t->index.mask = slots - 1;
  for (int32_t id = 0; id < t->n_vocab; id++) {
    if (t->text[id].n > 0 && !insert(t, id)) {
      return tn_fail(err, TN_E_ARG, "%s: the texts up to token %d collide in their hash, %d in a row", key_tokens, id,
                     TN_PROBE_MAX);
    }
  }
  return TN_OK;
}

static tn_status read_texts(tn_tokenizer *t, const tn_gguf *g, tn_err *err)
{
  tn_gguf_arr a;
  if (!tn_gguf_array(g, key_tokens, &a)) return tn_fail(err, TN_E_ARG, "%s is missing or no array", key_tokens);
  if (a.type != TN_GGUF_STR)
    return tn_fail(err, TN_E_ARG, "%s is an array of type %u, not strings", key_tokens, a.type);
  if (a.n == 0 || a.n > INT32_MAX) {
    return tn_fail(err, TN_E_ARG, "%s has %llu tokens, not 1 to %d", key_tokens, (unsigned long long)a.n, INT32_MAX);
  }
  size_t n = (size_t)a.n;
  t->n_vocab = (int32_t)n;
  t->text = tn_zalloc(n, sizeof *t->text);
  t->type = tn_zalloc(n, sizeof *t->type);
  t->mark = tn_zalloc(n, sizeof *t->mark);
  if (!t->text || !t->type || !t->mark) return tn_fail(err, TN_E_NOMEM, "no memory for %d tokens", t->n_vocab);
  for (size_t i = 0; i < n; i++) {
    if (!tn_gguf_arr_str(&a, i, &t->text[i])) return tn_fail(err, TN_E_ARG, "%s[%zu] is no string", key_tokens, i);
    if (t->text[i].n > t->max_text) t->max_text = t->text[i].n;
  }
  if (t->max_text > TN_TEXT_MAX) {
    return tn_fail(err, TN_E_ARG, "%s has a token of %zu bytes, the most is %zu", key_tokens, t->max_text, TN_TEXT_MAX);
  }
  return TN_OK;
}

/* The array at key, which must have one element for each token. *there is false when the file has no such key. */
static tn_status per_token(const tn_tokenizer *t, const tn_gguf *g, const char *key, tn_gguf_arr *a, bool *there,
                           tn_err *err)
{
  *there = tn_gguf_has(g, key);
  if (!*there) return TN_OK;
  if (!tn_gguf_array(g, key, a)) return tn_fail(err, TN_E_ARG, "%s is no array", key);
  if (a->n == (uint64_t)t->n_vocab) return TN_OK;
  return tn_fail(err, TN_E_ARG, "%s has %llu elements, %s has %d", key, (unsigned long long)a->n, key_tokens,
                 t->n_vocab);
}

static tn_status read_types(tn_tokenizer *t, const tn_gguf *g, tn_err *err)
{
  tn_gguf_arr a;
  bool there;
  tn_status st = per_token(t, g, key_types, &a, &there, err);
  if (st != TN_OK) return st;
  for (int32_t i = 0; i < t->n_vocab; i++) {
    uint64_t v = TN_TOKEN_NORMAL;
    if (there && (!tn_gguf_arr_u64(&a, (uint64_t)i, &v) || v > TN_TOKEN_BYTE)) {
      return tn_fail(err, TN_E_ARG, "%s[%d] is no integer from 0 to %d", key_types, i, TN_TOKEN_BYTE);
    }
    t->type[i] = (uint8_t)v;
  }
  return TN_OK;
}

static tn_status read_scores(tn_tokenizer *t, const tn_gguf *g, tn_err *err)
{
  tn_gguf_arr a;
  bool there;
  tn_status st = per_token(t, g, key_scores, &a, &there, err);
  if (st != TN_OK) return st;
  if (!there) return tn_fail(err, TN_E_ARG, "%s is missing, and a vocabulary of this model needs it", key_scores);
  t->score = tn_zalloc((size_t)t->n_vocab, sizeof *t->score);
  if (!t->score) return tn_fail(err, TN_E_NOMEM, "no memory for %d scores", t->n_vocab);
  for (int32_t i = 0; i < t->n_vocab; i++) {
    double v;
    if (tn_gguf_arr_f64(&a, (uint64_t)i, &v))
      t->score[i] = (float)v;
    else
      t->score[i] = NAN;
    if (!isfinite(t->score[i])) return tn_fail(err, TN_E_ARG, "%s[%d] is no finite number", key_scores, i);
  }
  return TN_OK;
}

tn_status tn_vocab_read(tn_tokenizer *t, const tn_gguf *g, tn_err *err)
{
  tn_status st = read_texts(t, g, err);
  if (st == TN_OK) st = read_types(t, g, err);
  if (st == TN_OK && t->model != TN_TOK_BPE) st = read_scores(t, g, err);
  if (st == TN_OK) st = build_index(t, err);
  return st;
}

void tn_vocab_clear(tn_tokenizer *t)
{
  free(t->text);
  free(t->type);
  free(t->mark);
  free(t->score);
  free(t->index.slot);
}
