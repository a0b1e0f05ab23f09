/* backend/device on the engine: the reference backend in memory that faults whenever the host touches it, with data that
 * arrives at sync and not before. The whole engine runs on it and gives the bits of the reference backend, which shows
 * that it assumes no host memory. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "probe_rig.h"

enum { SEQS = 3 };

static void put_device(probe_sets *s)
{
  probe_set(s, "compose.backend=device");
  probe_set(s, "backend.device.inner=%s/lib/tenon/backend/ref.so", TN_BUILD_DIR);
}

static void submit_all(rig *r)
{
  static int32_t prompts[SEQS][120];
  for (uint32_t i = 0; i < SEQS; i++) {
    rig_tokens(i + 40, r->n_vocab, prompts[i], 120);
    rig_generate(r, prompts[i], 7 + 30 * (int64_t)i, 16);
    rig_score(r, prompts[i], 110 - 25 * (int64_t)i);
  }
}

static probe_device *record_of(const rig *r, uint32_t rank)
{
  return probe_record(&r->s.engine->exec->ranks[rank].backend);
}

static rig *run(const char *model, bool device, const char *const *more)
{
  probe_sets s;
  probe_base(&s);
  if (device) put_device(&s);
  probe_set(&s, "engine.max_rows=60");
  probe_set(&s, "engine.max_seqs=3");
  for (; more && *more; more++) probe_set(&s, "%s", *more);
  rig *r = probe_open(rig_tiny(model), &s);
  submit_all(r);
  rig_run(r, 2);
  return r;
}

static void equal(const char *model, const char *const *more)
{
  rig *a = run(model, false, more), *b = run(model, true, more);
  probe_equal(more[0] ? more[0] : "plain", a, b);
  for (uint32_t i = 0; i < b->s.engine->exec->world; i++) {
    const probe_device *seen = record_of(b, i);
    cr_assert(seen->runs > 10 && seen->late > (i == 0 ? 5 : 0) && seen->used > 1u << 20);
    cr_assert_eq(seen->hooks > 0, b->s.engine->exec->world > 1);
  }
  rig_close(a);
  rig_close(b);
}

#define DEVICE(name_, model_, ...)                         \
  Test(probe_backend, name_)                               \
  {                                                        \
    static const char *const more[] = {__VA_ARGS__, NULL}; \
    equal(model_, more);                                   \
  }
DEVICE(plain, "llama", "engine.threads=1")
DEVICE(threads, "gemma3", "engine.threads=3")
DEVICE(int8_activations, "llama", "engine.activations=int8")
DEVICE(unfused, "llama", "engine.unfused=1")
DEVICE(naive_attention, "llama", "engine.attention_kernel=naive")
DEVICE(eviction, "llama", "compose.eviction=probe", "eviction.probe.gran=head", "eviction.probe.budget=20")
DEVICE(eviction_rank_rope, "gemma3", "compose.eviction=probe", "eviction.probe.rank_rope=1", "eviction.probe.budget=20")
DEVICE(demotion, "llama", "compose.eviction=probe", "eviction.probe.verdict=demote_even", "compose.demote=int8")
DEVICE(streaming, "llama", "compose.eviction=streaming_llm", "eviction.streaming_llm.window=20")
DEVICE(trees, "llama", "compose.draft=probe", "draft.probe.taps=1", "draft.probe.nodes=11")
DEVICE(early_exit, "llama", "compose.draft=service", "draft.service.exit=1")
DEVICE(single_records, "llama", "compose.draft=ops")
DEVICE(states, "llama", "compose.attention=probe", "attention.probe.kind=halves")
DEVICE(tiles, "gemma3", "compose.attention=probe", "attention.probe.kind=tiles")
DEVICE(codes, "llama", "compose.weights=probe", "quantizer.probe@weights.layout=two_level_min", "compose.kv=int8")
DEVICE(heads_on_two_ranks, "llama", "compose.parallel=tensor", "engine.threads=2")
DEVICE(stages, "llama", "compose.parallel=probe", "parallel.probe.layers=1, 2", "compose.draft=probe")
DEVICE(early_exit_on_two_ranks, "llama", "compose.parallel=tensor", "compose.draft=service", "draft.service.exit=1")
DEVICE(preemption, "llama", "compose.scheduler=probe", "scheduler.probe.preempt=15")
DEVICE(preemption_of_states, "llama", "compose.scheduler=probe", "scheduler.probe.preempt=15",
       "scheduler.probe.how=swap", "compose.attention=probe", "attention.probe.kind=elu")
DEVICE(scattered_pages, "gemma3", "compose.memory=probe", "memory.probe.full=20")

Test(probe_backend, second_model)
{
  char path[300];
  snprintf(path, sizeof path, "draft.service.model=%.250s", rig_tiny("llama-tied"));
  const char *const more[] = {"compose.draft=service", "draft.service.mode=second", path, NULL};
  equal("llama", more);
}

/* A fork, and a session that another engine takes up. */
Test(probe_backend, sessions)
{
  probe_sets s;
  int32_t prompt[50];
  tn_err err = tn_err_init();
  uint8_t *bytes;
  size_t n;
  probe_base(&s);
  put_device(&s);
  rig *r = probe_open(rig_tiny("llama"), &s), *other = probe_open(rig_tiny("llama"), &s);
  const uint8_t *mark = tn_composition_fingerprint(r->s.composition);
  rig_tokens(17, r->n_vocab, prompt, 50);
  rig_generate(r, prompt, 50, 30);
  while (r->s.engine->first->n_done < 60) probe_step(r);
  const tn_seq *p = r->s.engine->first;
  tn_request q = {.prompt = p->tokens + p->n_done,
                  .n_prompt = 1,
                  .max_new = p->max_len - p->n_tok,
                  .ignore_eog = 1,
                  .sampling = tn_sampling_default(),
                  .n_logprobs = 1,
                  .user = (void *)(uintptr_t)2};
  r->n = 2;
  other->n = 1;
  cr_assert(tn_engine_save(r->s.engine, p->id, mark, &bytes, &n, &err) == TN_OK, "%s", err.msg);
  cr_assert(tn_engine_fork(r->s.engine, p->id, &q, &r->r[1].seq, &err) == TN_OK, "%s", err.msg);
  q.user = (void *)(uintptr_t)1;
  cr_assert(tn_engine_restore(other->s.engine, bytes, n, mark, &q, &other->r[0].seq, &err) == TN_OK, "%s", err.msg);
  free(bytes);
  rig_run(r, 1);
  rig_run(other, 1);
  cr_assert(rig_same(r, 1, other, 0) && r->r[1].n > 10);
  cr_assert(memcmp(r->r[0].tokens + r->r[0].n - r->r[1].n, r->r[1].tokens, r->r[1].n * sizeof(int32_t)) == 0);
  rig_close(r);
  rig_close(other);
}

/* ---------------------------------------------------------------- the region does fault */

/* Does a child that reads one byte at p die of it? */
static bool faults(const void *p)
{
  pid_t child = fork();
  cr_assert(child >= 0);
  if (child == 0) {
    signal(SIGSEGV, SIG_DFL);
    signal(SIGBUS, SIG_DFL);
    _exit(*(const volatile uint8_t *)p & 1);
  }
  int status;
  cr_assert(waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status) && (WTERMSIG(status) == SIGSEGV || WTERMSIG(status) == SIGBUS);
}

Test(probe_backend, touching_it_is_fatal)
{
  probe_sets s;
  int32_t prompt[20];
  probe_base(&s);
  put_device(&s);
  rig *r = probe_open(rig_tiny("llama"), &s);
  rig_tokens(17, r->n_vocab, prompt, 20);
  rig_generate(r, prompt, 20, 8);
  for (int i = 0; i < 3; i++) probe_step(r);
  const tn_rank *rank = &r->s.engine->exec->ranks[0];
  const probe_device *seen = record_of(r, 0);
  cr_assert(faults(seen->region) && faults((const uint8_t *)seen->region + seen->used - 1));
  cr_assert(faults(rank->logits.buf), "the logits' buffer");
  cr_assert(faults(rank->kv), "the cache");
  cr_assert(faults(rank->prepared), "the prepared program");
  const tn_tensor *w = tn_weights_find(rank->weights, "blk.0.attn_q.weight");
  cr_assert(w && faults(w->buf), "a weight");
  cr_assert_not(faults(prompt), "the test itself");
  rig_run(r, 0);
  rig_close(r);
}

/* ---------------------------------------------------------------- limits and failures */

Test(probe_backend, more_rows_than_it_can_run)
{
  probe_sets s;
  rig *r;
  tn_err err = tn_err_init();
  probe_base(&s);
  put_device(&s);
  probe_set(&s, "backend.device.max_rows=24");
  for (int fits = 0; fits < 2; fits++) {
    if (fits) probe_set(&s, "engine.max_rows=24");
    for (uint32_t i = 0; i < s.n; i++) s.at[i] = s.text[i];
    s.at[s.n] = NULL;
    tn_status st = rig_try(rig_tiny("llama"), s.at, &r, &err);
    cr_assert_eq(st == TN_OK, fits, "%s", err.msg);
    if (!fits)
      cr_assert(strstr(err.msg, "backend/device runs 24 rows at once at most, [engine] max_rows is 512"), "%s",
                err.msg);
  }
  submit_all(r);
  rig_run(r, 0);
  cr_assert_eq(record_of(r, 0)->bad, 0);
  rig_close(r);
}

/* A run that fails ends the sequences that were in it, with the plugin's name; the next request is served. */
Test(probe_backend, a_run_that_fails)
{
  probe_sets s;
  int32_t prompt[20];
  tn_err err = tn_err_init();
  probe_base(&s);
  rig *plain = probe_open(rig_tiny("llama"), &s);
  put_device(&s);
  probe_set(&s, "backend.device.fail=4");
  rig *r = probe_open(rig_tiny("llama"), &s);
  rig_tokens(17, r->n_vocab, prompt, 20);
  rig_generate(r, prompt, 20, 8);
  tn_status st = TN_OK;
  while (st == TN_OK) st = tn_engine_step(r->s.engine, &err);
  cr_assert(st == TN_E_DEVICE && strstr(err.msg, "backend/device: run: TN_E_DEVICE"), "%s", err.msg);
  cr_assert(r->r[0].why == TN_FINISH_ERROR && r->r[0].n == 3 && tn_engine_idle(r->s.engine));
  cr_assert(tn_engine_check(r->s.engine, &err), "%s", err.msg);
  rig_clear(r);
  rig_generate(r, prompt, 20, 8);
  rig_generate(plain, prompt, 20, 8);
  rig_run(r, 1);
  rig_run(plain, 1);
  probe_equal("after a failure", plain, r);
  rig_close(r);
  rig_close(plain);
}

/* One of two ranks fails: the other one does not wait for ever. */
Test(probe_backend, a_rank_that_fails)
{
  probe_sets s;
  int32_t prompt[20];
  tn_err err = tn_err_init();
  probe_base(&s);
  put_device(&s);
  probe_set(&s, "compose.parallel=tensor");
  probe_set(&s, "engine.threads=2");
  probe_set(&s, "backend.device.fail=4");
  rig *r = probe_open(rig_tiny("llama"), &s);
  record_of(r, 1)->runs = 100; /* only rank 0 fails */
  rig_tokens(17, r->n_vocab, prompt, 20);
  for (int round = 0; round < 2; round++) {
    rig_clear(r);
    rig_generate(r, prompt, 20, 8);
    tn_status st = TN_OK;
    while (st == TN_OK && !tn_engine_idle(r->s.engine)) st = tn_engine_step(r->s.engine, &err);
    cr_assert(round == 0 ? st == TN_E_DEVICE : st == TN_OK, "%s", err.msg);
    cr_assert_eq(r->r[0].why, round == 0 ? TN_FINISH_ERROR : TN_FINISH_LENGTH);
  }
  rig_close(r);
}

Test(probe_backend, an_inner_file_that_is_not_there)
{
  static const char *const sets[] = {"compose.backend=device", "backend.device.inner=/nowhere/ref.so", NULL};
  rig *r;
  tn_err err = tn_err_init();
  cr_assert(rig_try(rig_tiny("llama"), sets, &r, &err) != TN_OK);
  cr_assert(strstr(err.msg, "backend/device: create: inner = /nowhere/ref.so cannot be loaded"), "%s", err.msg);
}
