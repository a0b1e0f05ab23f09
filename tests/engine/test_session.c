/* Saved, restored and forked sequences go on as if nothing had happened; what does not fit or is damaged is refused. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <string.h>

#include "support/engine_rig.h"

static const uint8_t mark[32] = {1, 2, 3};

typedef struct saved {
  uint8_t *bytes;
  size_t n;
  int32_t pending; /* the token that follows the saved text */
  int64_t n_text;
  uint32_t said; /* tokens generated so far, the pending one as well */
} saved;

/* Steps until the first request has said so many tokens, then saves its sequence. */
static saved save_after(rig *r, uint32_t said)
{
  tn_err err = tn_err_init();
  while (r->r[0].n < said) cr_assert(tn_engine_step(r->s.engine, &err) == TN_OK, "%s", err.msg);
  const tn_seq *s = tn_engine_seq(r->s.engine, r->r[0].seq);
  cr_assert(s != NULL && s->n_tok == s->n_done + 1);
  saved x = {.pending = s->tokens[s->n_done], .n_text = s->n_done, .said = r->r[0].n};
  cr_assert(tn_engine_save(r->s.engine, s->id, mark, &x.bytes, &x.n, &err) == TN_OK, "%s", err.msg);
  return x;
}

enum { PROMPT = 70, NEW = 60 };

static tn_request request(const int32_t *prompt, int64_t n, int64_t max_new, double temperature)
{
  tn_request q = {.prompt = prompt,
                  .n_prompt = n,
                  .max_new = max_new,
                  .sampling = tn_sampling_default(),
                  .key = 77,
                  .n_logprobs = 3,
                  .ignore_eog = 1};
  q.sampling.temperature = temperature;
  return q;
}

/* Result b of rb is what result a of ra said from token `from` on. */
static void same_rest(const rig *ra, uint32_t a, uint32_t from, const rig *rb, uint32_t b)
{
  const rig_result *x = &ra->r[a], *y = &rb->r[b];
  cr_assert(y->n == x->n - from, "%u tokens, want %u", y->n, x->n - from);
  for (uint32_t i = 0; i < y->n; i++)
    cr_assert(x->tokens[from + i] == y->tokens[i] && x->logprobs[from + i] == y->logprobs[i], "token %u behind %u", i,
              from);
}

/* Goes on from saved bytes with the pending token; the index of the result. */
static uint32_t go_on(rig *r, const saved *x, double temperature)
{
  tn_request q = request(&x->pending, 1, NEW - x->said, temperature);
  tn_err err = tn_err_init();
  q.user = (void *)(uintptr_t)(r->n + 1);
  tn_status st = tn_engine_restore(r->s.engine, x->bytes, x->n, mark, &q, &r->r[r->n].seq, &err);
  cr_assert(st == TN_OK, "%s", err.msg);
  return r->n++;
}

/* Saved at several points; restored in the same engine and in another, beside other work. */
static void check(const char *model, const char *const *sets, double temperature)
{
  int32_t prompt[PROMPT], other[30];
  rig *a = rig_open(rig_tiny(model), sets), *b = rig_open(rig_tiny(model), sets);
  rig_tokens(1, a->n_vocab, prompt, PROMPT);
  rig_tokens(2, a->n_vocab, other, 30);
  tn_request q = request(prompt, PROMPT, NEW, temperature);
  rig_submit(a, &q);
  rig_generate(b, other, 30, 50);
  saved at[3] = {save_after(a, 1), save_after(a, 20), save_after(a, 41)};
  uint32_t here = go_on(a, &at[1], temperature), there[3];
  for (int i = 0; i < 3; i++) there[i] = go_on(b, &at[i], temperature);
  rig_run(a, 1);
  rig_run(b, 1);
  same_rest(a, 0, at[1].said, a, here);
  for (int i = 0; i < 3; i++) {
    same_rest(a, 0, at[i].said, b, there[i]);
    free(at[i].bytes);
  }
  cr_expect(tn_engine_stat(b->s.engine).rows < 2u * (PROMPT + NEW) + 80, "the saved text was run again");
  rig_close(a);
  rig_close(b);
}

#define CASE(name_, model_, temperature_, ...)                                 \
  Test(engine_session, name_)                                                  \
  {                                                                            \
    static const char *const sets[] = {"engine.threads=1", __VA_ARGS__, NULL}; \
    check(model_, sets, temperature_);                                         \
  }
CASE(llama, "llama", 0, "compose.backend=cpu")
CASE(gemma3, "gemma3", 0, "compose.backend=cpu")
CASE(temperature, "llama", 0.8, "compose.backend=cpu")
CASE(streaming, "llama", 0, "compose.backend=cpu", "compose.eviction=streaming_llm", "eviction.streaming_llm.window=28")
CASE(kv_int8, "llama", 0, "compose.backend=cpu", "compose.kv=int8", "quantizer.int8@kv.group=32")
CASE(slabs, "llama", 0, "compose.backend=cpu", "compose.memory=contiguous")
CASE(two_ranks, "llama", 0, "compose.backend=cpu", "compose.parallel=tensor")
CASE(yarn, "llama-yarn", 0, "compose.backend=cpu")
CASE(eviction, "llama", 0, "compose.backend=ref", "compose.eviction=probe", "eviction.probe.gran=head",
     "eviction.probe.stateful=1", "eviction.probe.budget=40", "eviction.probe.every=8")
CASE(states, "llama", 0, "compose.backend=ref", "compose.attention=probe", "attention.probe.kind=elu")

/* ---------------------------------------------------------------- forks */

/* Children of a running sequence say what a request over the whole text says; the parent says what it would have. */
static void check_forks(const char *model, const char *const *sets)
{
  enum { FORKS = 4 };
  int32_t prompt[PROMPT], tail[FORKS][3], whole[PROMPT + NEW + 3];
  rig *a = rig_open(rig_tiny(model), sets), *b = rig_open(rig_tiny(model), sets);
  rig_tokens(1, a->n_vocab, prompt, PROMPT);
  rig_tokens(5, a->n_vocab, tail[0], FORKS * 3);
  tn_request q = request(prompt, PROMPT, 40, 0);
  rig_submit(a, &q);
  rig_submit(b, &q);
  uint32_t child[FORKS], plain[FORKS];
  for (uint32_t f = 0; f < FORKS; f++) {
    while (a->r[0].n < 2 + 9 * f) cr_assert(tn_engine_step(a->s.engine, NULL) == TN_OK);
    const tn_seq *s = tn_engine_seq(a->s.engine, a->r[0].seq);
    memcpy(whole, s->tokens, (size_t)s->n_done * sizeof *whole);
    memcpy(whole + s->n_done, tail[f], sizeof tail[f]);
    tn_err err = tn_err_init();
    tn_request follow = request(tail[f], 3, 15, 0), from_start = request(whole, s->n_done + 3, 15, 0);
    uint64_t used = tn_engine_stat(a->s.engine).kv_bytes_used;
    follow.user = (void *)(uintptr_t)(a->n + 1);
    child[f] = a->n++;
    cr_assert(tn_engine_fork(a->s.engine, s->id, &follow, &a->r[child[f]].seq, &err) == TN_OK, "%s", err.msg);
    cr_expect(eq(u64, tn_engine_stat(a->s.engine).kv_bytes_used, used), "a fork shares all pages");
    plain[f] = rig_submit(b, &from_start);
  }
  rig_run(a, 1);
  rig_run(b, 0);
  cr_expect(rig_same(a, 0, b, 0), "the parent says something else");
  for (uint32_t f = 0; f < FORKS; f++) cr_expect(rig_same(a, child[f], b, plain[f]), "child %u", f);
  rig_close(a);
  rig_close(b);
}

#define FORKS(name_, model_, ...)                                              \
  Test(engine_session, name_)                                                  \
  {                                                                            \
    static const char *const sets[] = {"engine.threads=1", __VA_ARGS__, NULL}; \
    check_forks(model_, sets);                                                 \
  }
FORKS(forks_llama, "llama", "compose.backend=cpu")
FORKS(forks_gemma3, "gemma3", "compose.backend=cpu")
FORKS(forks_speculation, "llama", "compose.backend=cpu", "compose.draft=ngram")
FORKS(forks_streaming, "llama", "compose.backend=cpu", "compose.eviction=streaming_llm",
      "eviction.streaming_llm.window=28")
FORKS(forks_slabs, "llama", "compose.backend=cpu", "compose.memory=contiguous")
FORKS(forks_two_ranks, "llama", "compose.backend=cpu", "compose.parallel=tensor")

/* ---------------------------------------------------------------- what is refused */

static const char *const cpu[] = {"compose.backend=cpu", "engine.threads=1", "engine.max_seqs=2", NULL};

static rig *one_running(saved *x)
{
  int32_t prompt[PROMPT];
  rig *r = rig_open(rig_tiny("llama"), cpu);
  rig_tokens(1, r->n_vocab, prompt, PROMPT);
  rig_generate(r, prompt, PROMPT, NEW);
  *x = save_after(r, 10);
  return r;
}

/* The restore is refused, says why, makes no event and leaves nothing behind. */
static void refused(rig *r, const uint8_t *bytes, size_t n, const uint8_t *fingerprint, const tn_request *q,
                    tn_status st, const char *text)
{
  tn_err err = tn_err_init();
  uint64_t seq, used = tn_engine_stat(r->s.engine).kv_bytes_used;
  tn_request mine = *q;
  mine.user = (void *)(uintptr_t)RIG_MAX_RESULTS; /* an event for it would be seen there */
  tn_status is = tn_engine_restore(r->s.engine, bytes, n, fingerprint, &mine, &seq, &err);
  cr_assert(is == st, "%s (%s), want %s", tn_status_name(is), err.msg, tn_status_name(st));
  cr_assert(strstr(err.msg, text) != NULL, "'%s' does not say '%s'", err.msg, text);
  cr_assert(tn_engine_stat(r->s.engine).kv_bytes_used == used && tn_engine_check(r->s.engine, &err));
  cr_assert(r->r[RIG_MAX_RESULTS - 1].done == false, "an event of a request that was refused");
}

Test(engine_session, refusals)
{
  static const uint8_t other[32] = {1, 2, 4}, zeros[500];
  int32_t outside = 100000;
  saved x;
  rig *r = one_running(&x);
  tn_request q = request(&x.pending, 1, 5, 0), empty = request(NULL, 0, 5, 0), bad = request(&outside, 1, 5, 0);
  tn_request long_one = request(&x.pending, 1, 10000, 0);
  refused(r, x.bytes, x.n, other, &q, TN_E_ARG, "fingerprint");
  refused(r, x.bytes, x.n, mark, &empty, TN_E_ARG, "empty");
  refused(r, x.bytes, x.n, mark, &bad, TN_E_ARG, "100000");
  refused(r, x.bytes, x.n, mark, &long_one, TN_E_NEVER, "10080");
  refused(r, x.bytes, 0, mark, &q, TN_E_IO, "0 bytes");
  refused(r, zeros, sizeof zeros, mark, &q, TN_E_IO, "none");
  uint32_t second = go_on(r, &x, 0);
  refused(r, x.bytes, x.n, mark, &q, TN_E_FULL, "room"); /* max_seqs = 2 */
  rig_run(r, 1);
  same_rest(r, 0, x.said, r, second);
  free(x.bytes);
  rig_close(r);
}

Test(engine_session, what_cannot_be_saved_or_forked)
{
  saved x = {0};
  rig *r = one_running(&x);
  tn_err err = tn_err_init();
  tn_request q = request(&x.pending, 1, 5, 0);
  uint64_t seq;
  free(x.bytes);
  rig_generate(r, &x.pending, 1, 5); /* queued, holds nothing yet */
  for (uint64_t id = r->r[1].seq; id < r->r[1].seq + 2; id++) {
    cr_expect(tn_engine_save(r->s.engine, id, mark, &x.bytes, &x.n, &err) == TN_E_STATE && x.bytes == NULL);
    cr_expect(strstr(err.msg, "holds no KV") != NULL, "%s", err.msg);
    cr_expect(tn_engine_fork(r->s.engine, id, &q, &seq, &err) == TN_E_STATE);
  }
  rig_run(r, 0);
  rig_close(r);
}

Test(engine_session, of_another_composition)
{
  static const char *const others[][4] = {
      {"compose.backend=cpu", "compose.kv=int8", "quantizer.int8@kv.group=32", NULL},
      {"compose.backend=cpu", "memory.paged.page_tokens=64", NULL},
      {"compose.backend=cpu", "compose.parallel=tensor", NULL}};
  saved x;
  rig *r = one_running(&x);
  tn_request q = request(&x.pending, 1, 5, 0);
  for (size_t i = 0; i < TN_ARRAY_LEN(others); i++) { /* under the same fingerprint: lied to, the engine still looks */
    rig *b = rig_open(rig_tiny("llama"), others[i]);
    uint64_t seq;
    tn_err err = tn_err_init();
    q.user = (void *)(uintptr_t)1;
    b->n = 1;
    tn_status st = tn_engine_restore(b->s.engine, x.bytes, x.n, mark, &q, &seq, &err);
    cr_expect(st == (i == 2 ? TN_OK : TN_E_IO), "%zu: %s", i, err.msg); /* two ranks have pages of as many bytes */
    rig_run(b, 1);
    rig_close(b);
  }
  free(x.bytes);
  rig_close(r);
}

/* Cut short anywhere, or any one byte changed: refused. */
Test(engine_session, damaged)
{
  saved x;
  rig *r = one_running(&x);
  tn_request q = request(&x.pending, 1, 5, 0);
  uint8_t *bytes = malloc(x.n);
  for (size_t n = 40; n < x.n; n += 1 + n / 60) refused(r, x.bytes, n, mark, &q, TN_E_IO, "saved session");
  memcpy(bytes, x.bytes, x.n);
  for (size_t at = 40; at < x.n; at += at < 1000 ? 1 : 97) {
    bytes[at] ^= (uint8_t)(1u << (at % 8));
    refused(r, bytes, x.n, mark, &q, TN_E_IO, "damaged");
    bytes[at] = x.bytes[at];
  }
  go_on(r, &x, 0); /* and whole it is taken */
  rig_run(r, 1);
  free(bytes);
  free(x.bytes);
  rig_close(r);
}

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

/* Changed on purpose, with a digest that fits: refused, or something that runs to its end. */
Test(engine_session, forged)
{
  saved x;
  rig *r = one_running(&x);
  uint8_t *bytes = malloc(x.n);
  uint32_t rng = 1, refusals = 0, taken = 0;
  rig_run(r, 0);
  for (int c = 0; c < 1500; c++) {
    memcpy(bytes, x.bytes, x.n);
    for (int k = 0; k <= c % 3; k++) {
      rng = rng * 1664525u + 1013904223u;
      size_t span = c % 2 ? 110 : 2000, at = 40 + (rng >> 8) % span; /* behind the fingerprint: head, text, tables */
      bytes[at] = c % 5 ? (uint8_t)(bytes[at] ^ (1u << (c % 8))) : (uint8_t)(rng >> 24);
    }
    uint64_t digest = digest_of(bytes, x.n - 8);
    memcpy(bytes + x.n - 8, &digest, sizeof digest);
    rig_clear(r);
    r->n = 1;
    tn_request q = request(&x.pending, 1, 3, 0);
    q.user = (void *)(uintptr_t)1;
    tn_err err = tn_err_init();
    tn_status st = tn_engine_restore(r->s.engine, bytes, x.n, mark, &q, &r->r[0].seq, &err);
    cr_assert(st == TN_OK || err.msg[0], "%s without a word", tn_status_name(st));
    st == TN_OK ? taken++ : refusals++;
    if (st == TN_OK) rig_run(r, 1);
    cr_assert(tn_engine_idle(r->s.engine) && tn_engine_stat(r->s.engine).kv_bytes_used == 0);
  }
  cr_expect(refusals > 700 && taken > 50, "%u refused, %u taken", refusals, taken);
  free(bytes);
  free(x.bytes);
  rig_close(r);
}
