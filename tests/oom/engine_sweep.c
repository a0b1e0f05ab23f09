/* engine_sweep: see engine_sweep.h. */
#include "engine_sweep.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <string.h>

#include "oom.h"
#include "setup/setup.h"

enum { N_NEW = 8, N_PROMPT = 30, N_REQ = 2 };

typedef struct reply {
  int32_t token[N_NEW];
  uint32_t n, why;
  char msg[sizeof(((tn_err *)0)->msg)];
} reply;

typedef struct tally { /* of a sweep */
  uint64_t refused;    /* engines that did not open */
  uint64_t one, both;  /* engines in which one request failed, or both */
  uint64_t none;       /* nothing failed: the allocation was not needed */
} tally;

static void on_token(void *ctx, const tn_token_event *e)
{
  reply *r = &((reply *)ctx)[(uintptr_t)e->user];
  r->token[r->n++] = e->token;
}

static void on_finish(void *ctx, const tn_seq *s, uint32_t why, const char *msg)
{
  reply *r = &((reply *)ctx)[(uintptr_t)s->req.user];
  r->why = why;
  snprintf(r->msg, sizeof r->msg, "%s", msg ? msg : "");
}

/* A text that repeats itself, so that drafters have something to say. */
static tn_status submit(tn_engine *e, uint32_t i, tn_err *err)
{
  int32_t prompt[N_PROMPT];
  uint64_t seq;
  for (int32_t k = 0; k < N_PROMPT; k++) prompt[k] = 60 + k % 5 * (3 + (int32_t)i);
  tn_request q = {.prompt = prompt,
                  .n_prompt = N_PROMPT - 4 * (int64_t)i,
                  .max_new = N_NEW,
                  .sampling = tn_sampling_default(),
                  .ignore_eog = 1,
                  .user = (void *)(uintptr_t)i};
  return tn_engine_submit(e, &q, &seq, err);
}

/* A failure's status and text. */
static void clear_error(uint64_t n, tn_status st, const char *msg, const char *phase)
{
  cr_expect(st == TN_E_NOMEM, "allocation %lu, %s: %s: %s", (unsigned long)n, phase, tn_status_name(st), msg);
  cr_expect(msg[0] != 0, "allocation %lu, %s: no text", (unsigned long)n, phase);
}

static void run_dry(uint64_t n, tn_engine *e)
{
  for (int step = 0; !tn_engine_idle(e); step++) {
    tn_err err = tn_err_init();
    cr_assert(step < 1000, "allocation %lu: the engine does not come to an end", (unsigned long)n);
    tn_status st = tn_engine_step(e, &err);
    if (st != TN_OK) clear_error(n, st, err.msg, "step");
    cr_assert(tn_engine_check(e, &err) == true, "allocation %lu: %s", (unsigned long)n, err.msg);
  }
}

static bool same(const reply *a, const reply *b)
{
  return a->n == b->n && !memcmp(a->token, b->token, sizeof a->token);
}

/* What came of the requests of an engine that was open. want NULL: nothing failed yet. */
static void judge(uint64_t n, tn_engine *e, reply *r, const reply *want, bool was, tally *t)
{
  uint32_t failed = 0;
  for (uint32_t i = 0; i < N_REQ; i++) {
    bool bad = r[i].why != TN_FINISH_LENGTH;
    failed += bad;
    cr_expect(bad == false || (was && r[i].msg[0] != 0), "allocation %lu, request %u: no text", (unsigned long)n, i);
    cr_expect(bad || !want || same(&r[i], &want[i]), "allocation %lu, request %u: other tokens", (unsigned long)n, i);
  }
  t->none += failed == 0;
  t->one += failed == 1;
  t->both += failed == 2;
  if (!want || failed == 0) return;
  tn_err err = tn_err_init();
  r[0] = (reply){0};
  cr_expect(submit(e, 0, &err) == TN_OK, "allocation %lu, again: %s", (unsigned long)n, err.msg);
  run_dry(n, e);
  cr_expect(same(&r[0], &want[0]), "allocation %lu, again: %u tokens, %s", (unsigned long)n, r[0].n, r[0].msg);
}

/* One engine from open to close, allocation n failing (0: none). False when there was no n-th allocation. */
static bool attempt(const sweep_composition *c, uint64_t n, reply *r, const reply *want, tally *t)
{
  char path[300];
  size_t n_sets = 0;
  while (c->sets[n_sets]) n_sets++;
  snprintf(path, sizeof path, "%s/tests/data/tiny/%s.gguf", TN_SOURCE_DIR, c->model);
  memset(r, 0, N_REQ * sizeof *r);
  tn_err err = tn_err_init();
  tn_loader *loader;
  tn_setup s = {0};
  tn_loader_cfg cfg = {.path = TN_BUILD_DIR "/tests/plugins", .lib_dir = TN_BUILD_DIR "/lib/tenon"};
  oom_arm(n);
  tn_status st = tn_loader_new(&cfg, &loader, &err);
  tn_setup_args a = {.sets = c->sets,
                     .n_sets = n_sets,
                     .model = path,
                     .conf_dir = TN_SOURCE_DIR "/conf",
                     .loader = loader,
                     .events = {.ctx = r, .token = on_token, .finish = on_finish}};
  if (st == TN_OK) st = tn_setup_open(&a, &s, &err);
  bool open = st == TN_OK;
  if (!open) {
    clear_error(n, st, err.msg, "open");
    t->refused++;
  }
  for (uint32_t i = 0; open && i < N_REQ; i++) {
    st = submit(s.engine, i, &err);
    if (st == TN_OK) continue;
    clear_error(n, st, err.msg, "submit");
    snprintf(r[i].msg, sizeof r[i].msg, "%s", err.msg);
  }
  if (open) run_dry(n, s.engine);
  bool was = oom_fired();
  if (open) judge(n, s.engine, r, want, was, t);
  cr_expect(open || was, "the composition does not open: %s", err.msg);
  tn_setup_close(&s);
  tn_loader_free(loader);
  return was;
}

/* Every allocation in turn. The first engine of a process also makes what the C library keeps for good. */
void sweep_engine(const sweep_composition *c)
{
  reply want[N_REQ], r[N_REQ];
  tally t = {0};
  attempt(c, 0, want, NULL, &t);
  cr_assert(t.none == 1, "%s%s", want[0].msg, want[1].msg);
  t = (tally){0};
  uint64_t n = 0;
  for (bool more = true; more;) {
    int64_t live = oom_live();
    more = attempt(c, ++n, r, want, &t);
    cr_expect(oom_live() == live, "allocation %lu: %ld stay behind", (unsigned long)n, (long)(oom_live() - live));
  }
  cr_expect(gt(u64, t.refused, 500));
  cr_expect(gt(u64, t.one, 20));
}
