/* prefix_model: see prefix_model.h. */
#include "prefix_model.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "stats.h"

enum { SEQS = 6, CTX = 200, MAX_KNOWN = 1 << 17 };
enum { NEW, GROW, FORK, TRUNCATE, SWAP, LEAVE, LOOK, CLEAR, N_KINDS };

typedef struct model_seq {
  tn_kv_seq *q; /* NULL: a free place */
  int64_t n;
  uint64_t salt;
  int32_t text[CTX + 64];
} model_seq;

typedef struct model {
  kv_rig *rig;
  model_seq seq[SEQS];
  uint64_t rng, next_id, n_full, n_done[N_KINDS], n_found;
  uint64_t *known; /* [MAX_KNOWN] hashes of all beginnings, in whole blocks, that were there since the last CLEAR */
  size_t n_known;
  bool exact; /* all of known is still there */
} model;

static const kv_spec specs[] = {
    {.name = "roomy", .max_seqs = 60},
    {.name = "few pages", .share = 0.4},
    {.name = "pages of 64", .page_tokens = "page_tokens=64", .share = 0.6},
    {.name = "window", .window = 24},
    {.name = "window with slack", .window = 24, .rollback = 40},
    {.name = "window and sinks", .window = 24, .sinks = 3, .share = 0.4},
    {.name = "windows that differ", .window = 40, .windows_differ = true, .share = 0.6},
    {.name = "promised pages", .memory = "static_paged", .share = 0.6},
    {.name = "slabs", .memory = "contiguous", .page_tokens = "page_tokens=16", .share = 0.7},
};

uint32_t prefix_model_specs(void) { return TN_ARRAY_LEN(specs); }

static uint32_t below(model *m, uint32_t n) { return (uint32_t)(plain_uniform(&m->rng) * n); }

static uint64_t mix(uint64_t h, uint64_t x)
{
  h = (h ^ x) * 0xD6E8FEB86659FD93u;
  return h ^ h >> 29;
}

static tn_prefix_root root_of(const model_seq *s) { return (tn_prefix_root){.salt = {s->salt, 0}}; }

/* Most texts are alike at first: one of two words at every stretch, seldom the second. */
static void write_text(model *m, model_seq *s, int64_t from, int64_t n)
{
  for (int64_t j = from; j < from + n;) {
    int32_t word = below(m, 8) == 0;
    for (int64_t end = j + 8; j < end && j < from + n; j++) s->text[j] = (int32_t)j * 7 + word;
  }
}

/* What stands at text position j of group g. */
static void content(const model_seq *s, uint32_t g, uint64_t *out, int64_t n)
{
  uint64_t h = mix(mix(1, s->salt), g);
  for (int64_t j = 0; j < n; j++) out[j] = h = mix(h, (uint32_t)s->text[j]);
}

static bool got(model *m, tn_status st, const char *what)
{
  cr_assert(st == TN_OK || st == TN_E_FULL, "%s: %s", what, tn_status_name(st));
  m->n_full += st != TN_OK;
  return st == TN_OK;
}

/* No query at next or later sees position j. */
static bool hidden(const tn_group *g, int64_t j, int64_t next)
{
  for (uint32_t i = 0; i < g->n_rules; i++)
    if (j >= g->rules[i].sinks && next - j >= g->rules[i].hi) return true;
  return false;
}

static void check_seq(model *m, const model_seq *s)
{
  static uint64_t want[CTX + 64];
  for (uint32_t g = 0; g < m->rig->groups.n; g++) {
    const tn_kv_table *t = &s->q->t[g];
    cr_assert(t->n == s->n && t->next_rope == s->n && !t->sparse);
    content(s, g, want, s->n);
    int64_t live = 0;
    for (int64_t r = 0; r < s->n; r++) {
      live += t->text_pos[r] >= 0;
      if (t->page[r / m->rig->groups.page_tokens] < 0) {
        cr_assert(hidden(&m->rig->groups.g[g], r, s->n), "entry %lld of %lld is gone", (long long)r, (long long)s->n);
        continue;
      }
      cr_assert(t->text_pos[r] == r && t->rope_pos[r] == r);
      cr_assert(*kv_rig_entry(m->rig, t, g, r) == want[r], "group %u: entry %lld of %lld is another's", g, (long long)r,
                (long long)s->n);
    }
    cr_assert(live == t->live);
  }
}

static void check(model *m)
{
  const tn_kv_seq *held[SEQS];
  uint32_t n = 0;
  tn_err err = tn_err_init();
  for (int i = 0; i < SEQS; i++) {
    if (!m->seq[i].q) continue;
    check_seq(m, &m->seq[i]);
    held[n++] = m->seq[i].q;
  }
  cr_assert(tn_kv_check(m->rig->store, held, n, &err), "%s", err.msg);
}

/* ---------------------------------------------------------------- what had to be found */

/* Its place among the known, or the free place where it would go. */
static uint64_t *known_at(const model *m, uint64_t h)
{
  size_t at = h % MAX_KNOWN;
  while (m->known[at] != 0 && m->known[at] != h) at = (at + 1) % MAX_KNOWN;
  return &m->known[at];
}

static void know(model *m, const model_seq *s, int64_t n)
{
  static uint64_t h[CTX + 64];
  int64_t pt = m->rig->groups.page_tokens;
  content(s, 0, h, n);
  for (int64_t b = pt; b <= n; b += pt) {
    uint64_t *place = known_at(m, h[b - 1]);
    m->n_known += *place == 0;
    cr_assert(m->n_known < MAX_KNOWN / 2);
    *place = h[b - 1];
  }
}

static int64_t known_part(const model *m, const model_seq *s, int64_t n)
{
  static uint64_t h[CTX + 64];
  int64_t pt = m->rig->groups.page_tokens, most = 0;
  content(s, 0, h, n);
  for (int64_t b = pt; b <= n; b += pt)
    if (*known_at(m, h[b - 1])) most = b;
  return most;
}

static void check_found(model *m, const model_seq *s, int64_t asked, int64_t found)
{
  int64_t most = known_part(m, s, asked);
  m->exact = m->exact && tn_kv_prefix_stat(m->rig->store).reclaimed == 0 && !m->rig->spec.window;
  cr_assert(found <= most, "found %lld tokens, only %lld were ever there", (long long)found, (long long)most);
  cr_assert(found % m->rig->groups.page_tokens == 0);
  cr_assert(!m->exact || found == most, "found %lld tokens of %lld", (long long)found, (long long)most);
  m->n_found += found > 0;
}

/* ---------------------------------------------------------------- operations */

static bool begin(model *m, model_seq *s)
{
  int64_t n = 1 + below(m, CTX - 20);
  s->salt = below(m, 4) == 0;
  write_text(m, s, 0, n);
  tn_prefix_root root = root_of(s);
  int64_t found = tn_kv_prefix_pin(m->rig->store, &root, s->text, n - 1);
  check_found(m, s, n - 1, found);
  bool ok = got(m, tn_kv_seq_new(m->rig->store, m->next_id++, n, CTX, &s->q), "new");
  tn_kv_prefix_settle(m->rig->store, ok ? s->q : NULL);
  s->n = ok ? found : 0;
  if (!ok) return false;
  s->q->prefix.on = true;
  s->q->prefix.root = root;
  return true;
}

static bool grow(model *m, model_seq *s)
{
  int64_t n = 1 + below(m, below(m, 2) ? 4 : m->rig->spec.max_rows);
  if (s->n + n > CTX) n = CTX - s->n;
  uint32_t spare = below(m, 5); /* drafted and refused */
  if (n == 0 || !got(m, tn_kv_reserve(m->rig->store, s->q, (uint32_t)n + spare), "reserve")) return false;
  static uint64_t want[CTX + 64];
  write_text(m, s, s->n, n + spare);
  for (uint32_t g = 0; g < m->rig->groups.n; g++) {
    content(s, g, want, s->n + n + spare);
    for (int64_t i = 0; i < n + spare; i++) *kv_rig_entry(m->rig, &s->q->t[g], g, s->n + i) = want[s->n + i];
  }
  s->q->prefix.text = s->text;
  s->q->prefix.n_text = s->n + n - (below(m, 3) ? 0 : below(m, 4)); /* accepted drafts are told later */
  cr_assert(tn_kv_commit(m->rig->store, s->q, (uint32_t)n, NULL, s->n) == TN_OK);
  s->n += n;
  know(m, s, s->q->prefix.n_text < s->n ? s->q->prefix.n_text : s->n);
  s->q->prefix.text = NULL;
  return true;
}

static bool fork_one(model *m, const model_seq *s, model_seq *c)
{
  if (c->q || !got(m, tn_kv_seq_new(m->rig->store, m->next_id++, 1, CTX, &c->q), "fork")) return false;
  tn_kv_seq *q = c->q;
  cr_assert(tn_kv_fork(m->rig->store, s->q, q) == TN_OK);
  *c = *s;
  c->q = q;
  return true;
}

static bool truncate_one(model *m, model_seq *s)
{
  int64_t to = s->n - below(m, (uint32_t)(s->n < 50 ? s->n : 50) + 1);
  if (m->exact) to -= to % m->rig->groups.page_tokens; /* a block that is written again would be forgotten */
  if (tn_kv_truncate(m->rig->store, s->q, to) != TN_OK) return false;
  s->n = to;
  return true;
}

static bool swap_one(model *m, model_seq *s)
{
  uint8_t *bytes;
  size_t n;
  tn_prefix_root root = s->q->prefix.root;
  cr_assert(tn_kv_save(m->rig->store, s->q, &bytes, &n) == TN_OK);
  tn_kv_seq_free(m->rig->store, s->q);
  s->q = NULL;
  tn_kv_seq *q;
  bool ok = got(m, tn_kv_seq_new(m->rig->store, m->next_id++, s->n + 1, CTX, &q), "back");
  if (ok && !got(m, tn_kv_load(m->rig->store, q, bytes, n, s->n, NULL), "load")) {
    tn_kv_seq_free(m->rig->store, q);
    ok = false;
  }
  free(bytes);
  if (!ok) return false;
  s->q = q;
  q->prefix.on = true;
  q->prefix.root = root;
  return true;
}

/* Somebody looks and does not start. */
static bool look(model *m, model_seq *s)
{
  model_seq other = {.salt = s->salt};
  write_text(m, &other, 0, CTX);
  tn_prefix_root root = root_of(&other);
  int64_t found = tn_kv_prefix_pin(m->rig->store, &root, other.text, CTX);
  check_found(m, &other, CTX, found);
  tn_kv_prefix_settle(m->rig->store, NULL);
  return true;
}

static bool clear(model *m)
{
  if (below(m, 40)) return false;
  tn_kv_prefix_clear(m->rig->store);
  memset(m->known, 0, MAX_KNOWN * sizeof *m->known);
  m->n_known = 0;
  m->exact = false; /* who was there before is not entered again */
  return true;
}

static bool act(model *m, uint32_t kind, model_seq *s)
{
  switch (kind) {
    case NEW: return !s->q && begin(m, s);
    case GROW: return grow(m, s);
    case FORK: return fork_one(m, s, &m->seq[below(m, SEQS)]);
    case TRUNCATE: return truncate_one(m, s);
    case SWAP: return swap_one(m, s);
    case LOOK: return look(m, s);
    case CLEAR: return clear(m);
    default:
      tn_kv_seq_free(m->rig->store, s->q);
      s->q = NULL;
      return true;
  }
}

static void step(model *m)
{
  static const uint8_t often[] = {GROW, GROW, GROW, GROW, GROW, GROW, NEW, FORK, TRUNCATE, SWAP, LEAVE, LOOK, CLEAR};
  model_seq *s = &m->seq[below(m, SEQS)];
  uint32_t kind = s->q ? often[below(m, sizeof often)] : NEW;
  m->n_done[kind] += act(m, kind, s);
  if (s->q) check_seq(m, s);
}

void prefix_model_run(uint32_t spec, uint64_t seed, uint32_t ops)
{
  kv_spec s = specs[spec];
  s.max_ctx = CTX;
  model *m = tn_zalloc(1, sizeof *m);
  m->rig = kv_rig_open(&s);
  m->known = tn_zalloc(MAX_KNOWN, sizeof *m->known);
  m->rng = seed;
  m->next_id = 1;
  m->exact = s.share <= 0;
  tn_err err = tn_err_init();
  cr_assert(tn_kv_prefix_open(m->rig->store, &err) == TN_OK, "%s", err.msg);
  for (uint32_t i = 0; i < ops; i++) {
    step(m);
    if (i % 128 == 127) check(m);
  }
  check(m);
  for (uint32_t k = 0; k < N_KINDS; k++)
    cr_assert(m->n_done[k] > (k == CLEAR || k == FORK || (k == TRUNCATE && s.window) ? 0 : ops / 400),
              "%s: kind %u: %llu times", s.name, k, (unsigned long long)m->n_done[k]);
  cr_assert(m->n_found > ops / 100, "%s: %llu found something", s.name, (unsigned long long)m->n_found);
  cr_assert(s.share <= 0 || tn_kv_prefix_stat(m->rig->store).reclaimed > 0, "%s: pages were never short", s.name);
  for (int i = 0; i < SEQS; i++)
    if (m->seq[i].q) tn_kv_seq_free(m->rig->store, m->seq[i].q);
  cr_assert(tn_kv_bytes_used(m->rig->store) == 0);
  tn_kv_prefix_clear(m->rig->store);
  kv_rig_close(m->rig);
  free(m->known);
  free(m);
}
