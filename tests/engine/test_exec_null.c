/* An engine that computes nothing: its calls give zeros and count pages, whatever the composition, and what it schedules is
 * checked as with a model. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine_int.h"
#include "support/engine_rig.h"

typedef struct nothing {
  tn_setup s;
  tn_loader *loader;
  uint32_t tokens, zero, finished;
  uint64_t now;
} nothing;

static void on_token(void *ctx, const tn_token_event *e)
{
  nothing *n = ctx;
  n->tokens++;
  n->zero += e->token == 0;
}

static void on_finish(void *ctx, const tn_seq *s, uint32_t why, const char *msg)
{
  nothing *n = ctx;
  n->finished++;
  cr_expect(why == TN_FINISH_LENGTH, "finish %u: %s", why, msg ? msg : "");
  cr_expect(s->first_token_ns > s->arrival_ns && s->arrival_ns >= 1000, "times are the given clock's");
}

static uint64_t clock_of(void *ctx)
{
  nothing *n = ctx;
  return n->now += 1000;
}

static nothing *open_null(const char *model, const char *const *sets)
{
  nothing *n = tn_zalloc(1, sizeof *n);
  size_t n_sets = 0;
  tn_err err = tn_err_init();
  tn_loader_cfg cfg = {.path = TN_BUILD_DIR "/tests/plugins", .lib_dir = TN_BUILD_DIR "/lib/tenon"};
  while (sets[n_sets]) n_sets++;
  cr_assert(tn_loader_new(&cfg, &n->loader, &err) == TN_OK, "%s", err.msg);
  tn_setup_args a = {.sets = sets,
                     .n_sets = n_sets,
                     .model = rig_tiny(model),
                     .conf_dir = TN_SOURCE_DIR "/conf",
                     .loader = n->loader,
                     .events = {.ctx = n, .token = on_token, .finish = on_finish},
                     .clock = clock_of,
                     .clock_ctx = n,
                     .null_forward = true,
                     .build_flags = TN_BUILD_HIDDEN};
  cr_assert(tn_setup_open(&a, &n->s, &err) == TN_OK, "%s: %s", sets[0], err.msg);
  return n;
}

static void close_null(nothing *n)
{
  tn_setup_close(&n->s);
  tn_loader_free(n->loader);
  free(n);
}

/* Twelve requests over too few pages. */
static void load(const char *model, const char *const *sets, bool given)
{
  enum { N = 12, PROMPT = 90, NEW = 40 };
  nothing *n = open_null(model, sets);
  tn_engine *e = n->s.engine;
  int32_t prompt[PROMPT], answer[NEW];
  tn_err err = tn_err_init();
  uint64_t id;
  rig_tokens(9, e->n_vocab, answer, NEW);
  for (uint32_t i = 0; i < N; i++) {
    rig_tokens(i, e->n_vocab, prompt, PROMPT);
    tn_request q = {
        .prompt = prompt, .n_prompt = PROMPT, .max_new = NEW, .sampling = tn_sampling_default(), .ignore_eog = 1};
    if (given) q.forced = answer, q.n_forced = NEW;
    cr_assert(tn_engine_submit(e, &q, &id, &err) == TN_OK, "%s", err.msg);
  }
  for (uint32_t step = 0; !tn_engine_idle(e); step++) {
    cr_assert(step < 5000 && tn_engine_step(e, &err) == TN_OK, "%s: %s", sets[0], err.msg);
    cr_assert(tn_engine_check(e, &err), "%s, step %u: %s", sets[0], step, err.msg);
  }
  cr_expect(n->finished == N && n->tokens == N * NEW, "%s: %u of %u tokens", sets[0], n->tokens, N * NEW);
  if (!given) cr_expect(eq(u32, n->zero, N * NEW)); /* zeros have their largest first */
  cr_expect(tn_engine_stat(e).kv_bytes_used == 0);
  close_null(n);
}

Test(engine_exec_null, compositions)
{
#define FEW "engine.kv_budget=400K", "engine.ctx=256", "engine.max_rows=64"
  static const char *const sets[][6] = {
      {"compose.memory=paged", FEW},
      {"compose.memory=static_paged", FEW},
      {"compose.memory=contiguous", FEW},
      {"compose.scheduler=chunked", FEW, "scheduler.chunked.preempt=swap"},
      {"compose.eviction=streaming_llm", FEW, "eviction.streaming_llm.window=60"},
      {"compose.eviction=h2o", FEW},
      {"compose.kv=int8", FEW},
      {"compose.weights=int4", FEW},
      {"compose.draft=ngram", FEW},
      {"compose.parallel=tensor", FEW},
  };
  for (size_t i = 0; i < TN_ARRAY_LEN(sets); i++) {
    const char *list[7] = {0};
    memcpy(list, sets[i], sizeof sets[i]);
    load("llama", list, i % 2 == 0);
  }
  load("gemma3", (const char *const[]){FEW, "compose.scheduler=continuous", NULL}, true);
}

Test(engine_exec_null, nothing_is_there)
{
  nothing *n = open_null("llama", (const char *const[]){"engine.ctx=1000000", "engine.max_seqs=64", NULL});
  tn_engine *e = n->s.engine;
  tn_engine_info i = tn_engine_stat(e);
  cr_expect(i.kv_bytes_total > (uint64_t)1 << 32, "pages are counted: %llu bytes",
            (unsigned long long)i.kv_bytes_total);
  cr_expect(strstr(i.device, "nothing is computed") != NULL, "%s", i.device);
  float logits[64], hidden[512] = {1};
  int32_t prompt[] = {1, 2, 3};
  uint64_t id;
  memset(logits, 1, sizeof logits);
  tn_request q = {.prompt = prompt, .n_prompt = 3, .max_new = 2, .sampling = tn_sampling_default(), .ignore_eog = 1};
  cr_assert(tn_engine_submit(e, &q, &id, NULL) == TN_OK && tn_engine_step(e, NULL) == TN_OK);
  const tn_rank *r = &e->exec->ranks[0];
  cr_assert(r->b->download(r->backend.inst, r->logits.buf, r->logits.offset, logits, sizeof logits) == TN_OK);
  cr_expect(logits[0] == 0 && logits[63] == 0);
  cr_assert(e->model->shape.d_model <= 512 && tn_engine_hidden(e, tn_engine_seq(e, id), hidden, NULL) == TN_OK);
  cr_expect(hidden[0] == 0);
  while (!tn_engine_idle(e)) cr_assert(tn_engine_step(e, NULL) == TN_OK);
  close_null(n);
}
