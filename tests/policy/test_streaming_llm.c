/* streaming_llm: what it declares, and on the engine: incremental decoding is the masked quadratic reference with
 * cache-index distances; as long as nothing is dropped it is full attention to the bit; memory does not grow. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <string.h>

#include "engine/engine_int.h"
#include "support/engine_rig.h"
#include "support/naive.h"
#include "support/plugin_rig.h"

Test(policy_streaming_llm, declares_a_mask_and_a_cache_size)
{
  plugin_rig *p =
      plugin_rig_open(TN_SLOT_EVICTION, "streaming_llm", (const char *const[]){"sinks=3", "window=60", NULL});
  const tn_eviction_v1 *v = p->vtable;
  tn_evict_spec s = {.struct_size = sizeof s, .mask = TN_MASK_ALL};
  cr_assert(v->describe(p->inst, NULL, &s, NULL) == TN_OK);
  cr_expect(s.kind == TN_EV_POSITION && s.gran == TN_GRAN_ALL && s.renumber == 63 && s.signals == 0);
  cr_expect(s.mask.lo == 0 && s.mask.hi == 60 && s.mask.stride == 1 && s.mask.residue == 0 && s.mask.sinks == 3);
  plugin_rig_close(p);
}

/* ---------------------------------------------------------------- the reference */

typedef struct cache {
  int64_t sinks, window;
  bool by_text; /* distances of the text, for the power of the test */
} cache;

static bool sees(void *ctx, uint32_t layer, uint32_t head, int64_t i, int64_t j)
{
  const cache *c = ctx;
  (void)layer, (void)head;
  return j < c->sinks || i - j < c->window;
}

/* Index in the cache of entry j when query i is the last: the sinks first, then the last entries. */
static int64_t index_in_cache(void *ctx, uint32_t layer, uint32_t head, int64_t i, int64_t j)
{
  const cache *c = ctx;
  (void)layer, (void)head;
  if (c->by_text || i < c->sinks + c->window || j < c->sinks) return j;
  return c->sinks + c->window - 1 - (i - j);
}

enum { TOKENS = 100 };

static double error_of(const rig *r, uint32_t result, const int32_t *tokens, cache c)
{
  naive_hooks hooks = {.ctx = &c, .sees = sees, .turned_by = index_in_cache};
  naive *x = naive_open(r->s.model, &hooks, TOKENS);
  double worst = naive_worst(x, tokens, TOKENS, r->r[result].rows);
  naive_close(x);
  return worst;
}

/* With keys and values in f32, so that the reference is near. */
static rig *streaming(const char *model, const char *rows, int sinks, int window)
{
  char s[64], w[64];
  snprintf(s, sizeof s, "eviction.streaming_llm.sinks=%d", sinks);
  snprintf(w, sizeof w, "eviction.streaming_llm.window=%d", window);
  const char *const sets[] = {"compose.backend=ref",
                              "engine.threads=1",
                              "engine.activations=f32",
                              "compose.eviction=streaming_llm",
                              "compose.kv=probe",
                              "quantizer.probe@kv.kv=f32",
                              s,
                              w,
                              rows,
                              NULL};
  return rig_open(rig_tiny(model), sets);
}

/* Token by token and in chunks over the cache's size. gemma3's own windows stay in force. */
static void check(const char *model, int sinks, int window)
{
  int32_t tokens[TOKENS];
  rig *chunks = streaming(model, "engine.max_rows=512", sinks, window);
  rig *single = streaming(model, "engine.max_rows=1", sinks, window);
  rig_tokens(4, chunks->n_vocab, tokens, TOKENS);
  uint32_t at = rig_score(chunks, tokens, TOKENS), same = rig_score(single, tokens, TOKENS);
  rig_run(chunks, 1);
  rig_run(single, 16);
  cr_expect(rig_same(chunks, at, single, same), "%s, %d + %d: chunks change bits", model, sinks, window);
  double right = error_of(chunks, at, tokens, (cache){sinks, window, false});
  cr_expect(right < 1e-4, "%s, %d + %d: off by %g", model, sinks, window, right);
  double wrong = error_of(chunks, at, tokens, (cache){sinks, window + 1, false});
  cr_expect(wrong > 50 * right, "a window of one more would do: %g", wrong);
  wrong = error_of(chunks, at, tokens, (cache){sinks, window, true});
  cr_expect(sinks == 0 || wrong > 50 * right, "distances of the text would do: %g", wrong);
  rig_close(chunks);
  rig_close(single);
}

Test(policy_streaming_llm, equals_the_masked_reference)
{
  check("llama", 4, 28);
  check("llama", 1, 60);
  check("llama", 0, 17);
  check("gemma3", 4, 20);
}

/* Rows that see everything are those of full attention, bit by bit; the first that does not is another. */
Test(policy_streaming_llm, full_attention_while_nothing_is_dropped)
{
  static const char *const full[] = {"compose.backend=ref", "engine.threads=1",          "engine.activations=f32",
                                     "compose.kv=probe",    "quantizer.probe@kv.kv=f32", NULL};
  int32_t tokens[60];
  rig *a = rig_open(rig_tiny("llama"), full), *b = streaming("llama", "engine.max_rows=19", 4, 28);
  rig_tokens(5, a->n_vocab, tokens, 60);
  uint32_t x = rig_score(a, tokens, 60), y = rig_score(b, tokens, 60);
  rig_run(a, 0);
  rig_run(b, 0);
  size_t row = a->n_vocab * sizeof(float);
  for (size_t i = 0; i < 60; i++) {
    bool equal = memcmp(a->r[x].rows + i * a->n_vocab, b->r[y].rows + i * a->n_vocab, row) == 0;
    cr_assert(equal == (i < 32), "row %zu", i);
  }
  rig_close(a);
  rig_close(b);
}

/* S + W entries, rounded up to pages at both ends, and the rows of a step: however long the text. */
Test(policy_streaming_llm, memory_does_not_grow)
{
  enum { SINKS = 4, WINDOW = 28, PAGE = 16, ROWS = 8 };
  int32_t prompt[40];
  rig *r = streaming("llama", "engine.max_rows=8", SINKS, WINDOW);
  rig_tokens(6, r->n_vocab, prompt, 40);
  rig_generate(r, prompt, 40, 200);
  uint64_t page = tn_exec_page_bytes(r->s.engine->exec, 0), most = 0, early = 0;
  for (uint32_t step = 0; !tn_engine_idle(r->s.engine); step++) {
    uint64_t pages = tn_engine_stat(r->s.engine).kv_bytes_used / page;
    most = pages > most ? pages : most;
    if (step < 60) early = most;
    cr_assert(tn_engine_step(r->s.engine, NULL) == TN_OK);
    cr_assert(tn_engine_check(r->s.engine, NULL));
  }
  cr_expect(r->r[0].n == 200);
  cr_expect(most <= 1 + (WINDOW + ROWS + PAGE - 1) / PAGE + 1, "%llu pages", (unsigned long long)most);
  cr_expect(eq(u64, most, early));
  cr_expect(eq(u64, r->s.engine->groups.n, 1));
  rig_close(r);
}
