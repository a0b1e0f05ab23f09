/* kv_run: random runs over all shapes of stores. See kv_model.h. */
#include <criterion/criterion.h>

#include "kv_model.h"

static const kv_spec specs[] = {
    {.name = "one group", .max_ctx = 150},
    {.name = "few pages", .max_ctx = 150, .share = 0.6},
    {.name = "pages of 64", .page_tokens = "page_tokens=64"},
    {.name = "window", .window = 24},
    {.name = "window with slack", .window = 24, .rollback = 40},
    {.name = "window and sinks", .window = 24, .sinks = 3, .share = 0.2},
    {.name = "windows that differ", .window = 40, .windows_differ = true},
    {.name = "states", .state = true, .share = 0.7},
    {.name = "eviction by layer", .gran = TN_GRAN_LAYER},
    {.name = "eviction by head", .gran = TN_GRAN_HEAD, .share = 0.25},
    {.name = "eviction with demotion", .gran = TN_GRAN_LAYER, .n_layouts = 2, .share = 0.2},
    {.name = "eviction with raw keys", .gran = TN_GRAN_ALL, .rank_rope = true},
    {.name = "eviction in a window", .gran = TN_GRAN_ALL, .window = 30, .sinks = 2},
    {.name = "everything", .gran = TN_GRAN_HEAD, .window = 30, .windows_differ = true, .n_layouts = 2, .share = 0.2},
};

const kv_spec *kv_spec_at(uint32_t i) { return i < TN_ARRAY_LEN(specs) ? &specs[i] : NULL; }

static const char *const names[KV_N_KINDS] = {"new",     "text", "tree", "nothing", "truncate",
                                              "compact", "fork", "swap", "free"};

/* Nothing was left out: every operation that the shape allows was done often, and pages ran out where they are few. */
static void check_counts(const kv_model *m, const kv_spec *s, uint32_t ops)
{
  for (int kind = 0; kind < KV_N_KINDS; kind++) {
    bool never = kind == KV_COMPACT && !s->gran;
    bool rare = (kind == KV_TRUNCATE && (s->window || s->state || s->gran)) || (kind == KV_FORK && s->memory);
    cr_assert(never || m->n_done[kind] > (rare ? 0 : ops / 2000), "%s: %s: %llu times", s->name, names[kind],
              (unsigned long long)m->n_done[kind]);
  }
  cr_assert(s->share <= 0 || m->n_full > ops / 500, "%s: pages ran out %llu times only", s->name,
            (unsigned long long)m->n_full);
}

void kv_model_run(uint32_t spec, bool slabs, uint64_t seed, uint32_t ops)
{
  kv_spec s = specs[spec];
  if (slabs) s.memory = "contiguous", s.page_tokens = "page_tokens=16";
  if (slabs && s.share > 0) s.share = 0.7; /* 4 slabs of 6 */
  kv_model *m = kv_model_open(&s);
  m->rng = seed;
  for (uint32_t i = 0; i < ops; i++) kv_model_step(m);
  kv_model_check(m);
  check_counts(m, &s, ops);
  kv_model_close(m);
}
