/* session: a sequence as bytes, to be continued later or elsewhere. See engine.h.
 *
 * Saved: committed tokens, KV, eviction signals, and what plugins with state of their own write; last a digest of all
 * that. The fingerprint says under which composition; another one is refused. What the digest vouches for is checked all
 * the same, since anybody can make one that fits. */
#include <stdlib.h>
#include <string.h>

#include "engine_int.h"

#define MAGIC 0x31534E54u /* "TNS1" */

typedef struct head {
  uint32_t magic, n_groups;
  uint8_t fingerprint[32];
  int64_t n_done, next_evict, window_end, regime;
  uint64_t kv_bytes, signal_bytes, plugin_bytes;
} head;

typedef struct bytes { /* growing */
  uint8_t *p;
  size_t n, cap;
} bytes;

static tn_status append(void *ctx, const void *p, uint64_t n)
{
  bytes *b = ctx;
  if (n > SIZE_MAX / 4 || b->n > SIZE_MAX / 4) return TN_E_NOMEM;
  if (b->n + n > b->cap) {
    size_t cap = 2 * (b->n + (size_t)n) + 256;
    uint8_t *grown = realloc(b->p, cap);
    if (!grown) return TN_E_NOMEM;
    b->p = grown;
    b->cap = cap;
  }
  if (n) memcpy(b->p + b->n, p, (size_t)n);
  b->n += (size_t)n;
  return TN_OK;
}

/* Every step is reversible, so no two files that differ in one word have the same digest. */
static uint64_t digest_of(const uint8_t *p, size_t n)
{
  uint64_t d = n;
  for (size_t at = 0; at < n; at += 8) {
    uint64_t word = 0;
    memcpy(&word, p + at, n - at < 8 ? n - at : 8);
    d = (d ^ word) * 0x9E3779B97F4A7C15u;
    d ^= d >> 32;
  }
  return d;
}

static tn_status save_signals(const tn_engine *e, const tn_seq *s, bytes *out)
{
  tn_status st = TN_OK;
  for (uint32_t g = 0; s->signals && st == TN_OK && g < e->n_groups; g++) {
    int64_t *const arrays[] = {s->signals->attn[g], s->signals->win[g], s->signals->knorm[g]};
    for (size_t i = 0; st == TN_OK && i < TN_ARRAY_LEN(arrays); i++)
      if (arrays[i]) st = append(out, arrays[i], (uint64_t)s->kv->t[g].n * sizeof(int64_t));
  }
  return st;
}

static bool load_signals(const tn_engine *e, tn_seq *s, const uint8_t *p, uint64_t n)
{
  for (uint32_t g = 0; s->signals && g < e->n_groups; g++) {
    int64_t *const arrays[] = {s->signals->attn[g], s->signals->win[g], s->signals->knorm[g]};
    uint64_t each = (uint64_t)s->kv->t[g].n * sizeof(int64_t);
    for (size_t i = 0; i < TN_ARRAY_LEN(arrays); i++) {
      if (!arrays[i]) continue;
      if (each > n) return false;
      memcpy(arrays[i], p, each);
      p += each;
      n -= each;
    }
  }
  return n == 0;
}

/* Each plugin with per-sequence state: its length, then its bytes, in the order of tn_engine_instance. */
static tn_status save_plugins(const tn_engine *e, uint64_t seq, bytes *out)
{
  const char *key;
  const tn_instance *in;
  tn_status st = TN_OK;
  for (uint32_t i = 0; st == TN_OK && tn_engine_instance(e, i, &key, &in); i++) {
    const tn_ext_sequence *x = in->desc && in->desc->ext ? in->desc->ext(in->inst, "tenon.sequence/1") : NULL;
    if (!x || !x->save) continue;
    uint64_t n = 0;
    size_t at = out->n;
    tn_writer w = {sizeof w, 0, out, append};
    st = append(out, &n, sizeof n);
    if (st == TN_OK) st = x->save(in->inst, seq, &w);
    n = out->n - at - sizeof n;
    if (st == TN_OK) memcpy(out->p + at, &n, sizeof n);
  }
  return st;
}

static tn_status load_plugins(const tn_engine *e, uint64_t seq, const uint8_t *p, uint64_t left, tn_err *err)
{
  const char *key;
  const tn_instance *in;
  for (uint32_t i = 0; tn_engine_instance(e, i, &key, &in); i++) {
    const tn_ext_sequence *x = in->desc && in->desc->ext ? in->desc->ext(in->inst, "tenon.sequence/1") : NULL;
    if (!x || !x->save || !x->load) continue;
    uint64_t n;
    if (left < sizeof n) return tn_fail(err, TN_E_IO, "saved session: cut short in the state of %s", key);
    memcpy(&n, p, sizeof n);
    if (n > left - sizeof n) return tn_fail(err, TN_E_IO, "saved session: cut short in the state of %s", key);
    tn_status st = x->load(in->inst, seq, p + sizeof n, n, err);
    if (st != TN_OK) return st;
    p += sizeof n + n;
    left -= sizeof n + n;
  }
  return left == 0 ? TN_OK
                   : tn_fail(err, TN_E_IO, "saved session: %llu bytes that no plugin reads", (unsigned long long)left);
}

tn_status tn_engine_save(tn_engine *e, uint64_t seq, const uint8_t fingerprint[32], uint8_t **out, size_t *n,
                         tn_err *err)
{
  *out = NULL;
  const tn_seq *s = tn_engine_seq(e, seq);
  if (!s || !s->kv) return tn_fail(err, TN_E_STATE, "sequence %llu holds no KV to save", (unsigned long long)seq);
  head h = {.magic = MAGIC,
            .n_groups = e->n_groups,
            .n_done = s->n_done,
            .next_evict = s->next_evict,
            .window_end = s->window_end,
            .regime = s->regime};
  memcpy(h.fingerprint, fingerprint, sizeof h.fingerprint);
  uint8_t *kv = NULL;
  size_t kv_bytes = 0;
  bytes b = {0};
  tn_status st = tn_kv_save(e->kv, s->kv, &kv, &kv_bytes);
  h.kv_bytes = kv_bytes;
  if (st == TN_OK) st = append(&b, &h, sizeof h);
  if (st == TN_OK) st = append(&b, s->tokens, (uint64_t)s->n_done * sizeof *s->tokens);
  if (st == TN_OK) st = append(&b, kv, kv_bytes);
  free(kv);
  size_t at = b.n;
  if (st == TN_OK) st = save_signals(e, s, &b);
  h.signal_bytes = b.n - at;
  at = b.n;
  if (st == TN_OK) st = save_plugins(e, seq, &b);
  h.plugin_bytes = b.n - at;
  if (st == TN_OK) memcpy(b.p, &h, sizeof h);
  uint64_t digest = st == TN_OK ? digest_of(b.p, b.n) : 0;
  if (st == TN_OK) st = append(&b, &digest, sizeof digest);
  if (st != TN_OK) {
    free(b.p);
    return tn_fail(err, st, "sequence %llu cannot be saved (%s)", (unsigned long long)seq, tn_status_name(st));
  }
  *out = b.p;
  *n = b.n;
  return TN_OK;
}

/* *n: bytes of the session, without the digest behind them. */
static tn_status read_head(const tn_engine *e, const uint8_t *p, size_t *n, const uint8_t fingerprint[32], head *h,
                           tn_err *err)
{
  uint64_t digest;
  if (*n < sizeof *h + sizeof digest) return tn_fail(err, TN_E_IO, "saved session: %zu bytes are too few", *n);
  memcpy(h, p, sizeof *h);
  if (h->magic != MAGIC) return tn_fail(err, TN_E_IO, "saved session: the file is none");
  if (memcmp(h->fingerprint, fingerprint, sizeof h->fingerprint) != 0)
    return tn_fail(err, TN_E_ARG, "saved session: made by another composition or model (its fingerprint differs)");
  *n -= sizeof digest;
  memcpy(&digest, p + *n, sizeof digest);
  uint64_t left = *n - sizeof *h;
  bool ok =
      digest_of(p, *n) == digest && h->n_groups == e->n_groups && h->n_done >= 0 && (uint64_t)h->n_done <= left / 4;
  left -= ok ? (uint64_t)h->n_done * 4 : 0;
  ok = ok && h->next_evict > h->n_done && h->kv_bytes <= left && h->signal_bytes <= left - h->kv_bytes &&
       h->plugin_bytes == left - h->kv_bytes - h->signal_bytes;
  return ok ? TN_OK : tn_fail(err, TN_E_IO, "saved session: the file is cut short or damaged");
}

/* A new sequence that begins with the saved text. */
static tn_status continue_text(tn_engine *e, const uint8_t *p, int64_t n, const tn_request *req, tn_seq **s,
                               tn_err *err)
{
  int32_t *text = malloc((size_t)n * sizeof *text + 1);
  if (!text) return tn_fail(err, TN_E_NOMEM, "no memory for %lld tokens", (long long)n);
  memcpy(text, p, (size_t)n * sizeof *text);
  tn_status st = TN_OK;
  for (int64_t i = 0; st == TN_OK && i < n; i++)
    if (text[i] < 0 || (uint32_t)text[i] >= e->n_vocab)
      st = tn_fail(err, TN_E_IO, "saved session: token %lld is %d: the vocabulary has %u", (long long)i, text[i],
                   e->n_vocab);
  if (st == TN_OK) st = tn_engine_continue(e, text, n, req, s, err);
  free(text);
  return st;
}

tn_status tn_engine_restore(tn_engine *e, const uint8_t *p, size_t n, const uint8_t fingerprint[32],
                            const tn_request *req, uint64_t *seq, tn_err *err)
{
  head h;
  tn_seq *s = NULL;
  tn_status st = read_head(e, p, &n, fingerprint, &h, err);
  if (st == TN_OK) st = continue_text(e, p + sizeof h, h.n_done, req, &s, err);
  if (st != TN_OK) return st;
  const uint8_t *at = p + sizeof h + h.n_done * 4;
  s->regime = h.regime;
  s->foreign = true;
  st = tn_rope_table_for(e->rope, h.regime, &s->rope, err);
  tn_err why = tn_err_init();
  if (st == TN_OK && (st = tn_engine_admit_empty(e, s, &why)) != TN_OK)
    tn_fail(err, st, "saved session: %s", why.msg[0] ? why.msg : "no room for it now");
  if (st == TN_OK) st = tn_kv_load(e->kv, s->kv, at, (size_t)h.kv_bytes, h.n_done, err);
  at += h.kv_bytes;
  if (st == TN_OK && !load_signals(e, s, at, h.signal_bytes))
    st = tn_fail(err, TN_E_IO, "saved session: eviction state of another size");
  if (st == TN_OK) st = load_plugins(e, s->id, at + h.signal_bytes, h.plugin_bytes, err);
  if (st != TN_OK) {
    tn_engine_discard(e, s);
    return st;
  }
  s->n_done = s->n_cached = h.n_done;
  tn_evict_continue(e, s, h.window_end, h.next_evict);
  *seq = s->id;
  return TN_OK;
}
