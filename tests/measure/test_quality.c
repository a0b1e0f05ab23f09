/* Two engines side by side, against rows that were taken from each alone. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <string.h>

#include "quality_rig.h"
#include "support/engine_rig.h"

TestSuite(measure_quality, .timeout = 60);

static tn_quality measured(quality_rig *a, quality_rig *b, const tn_chunks *c)
{
  tn_quality q = {0};
  tn_err err = tn_err_init();
  tn_quality_args args = {
      .tested = quality_subject(a), .reference = b ? quality_subject(b) : (tn_subject){0}, .chunks = c};
  cr_assert(eq(int, tn_quality_measure(&args, &q, &err), TN_OK), "%s", err.msg);
  cr_assert(eq(i64, q.n, c->n_chunks * (c->n_ctx - 1 - c->n_prompt)));
  return q;
}

Test(measure_quality, identical_compositions_are_0_apart)
{
  /* steps of different sizes: rows of one engine wait for the other's */
  quality_rig *a = quality_open("llama", (const char *[]){"engine.max_rows=16", NULL}),
              *b = quality_open("llama", NULL);
  tn_chunks c = quality_chunks(a, 2, 48, 24);
  tn_quality q = measured(a, b, &c), other = measured(b, a, &c);
  for (int64_t i = 0; i < q.n; i++) {
    cr_expect(eq(dbl, q.tokens[i].kld, 0.0));
    cr_expect(eq(dbl, q.tokens[i].nll, q.tokens[i].nll_base));
    cr_expect(eq(dbl, other.tokens[i].kld, 0.0));
    cr_expect(eq(i64, q.tokens[i].pos, 24 + i % 23));
  }
  tn_quality_free(&q);
  tn_quality_free(&other);
  tn_chunks_free(&c);
  quality_close(a);
  quality_close(b);
}

/* The definition, over logits of whole chunks that each engine gave alone. */
Test(measure_quality, against_rows_of_each_alone)
{
  static const char *const kv[] = {"compose.kv=int8", "engine.max_rows=16", NULL};
  quality_rig *a = quality_open("llama", kv), *b = quality_open("llama", NULL);
  tn_chunks c = quality_chunks(a, 2, 48, 20);
  tn_quality q = measured(a, b, &c);
  rig *ra = rig_open(rig_tiny("llama"), kv), *rb = rig_open(rig_tiny("llama"), (const char *[]){NULL});
  double largest = 0;
  for (uint32_t chunk = 0; chunk < 2; chunk++) {
    uint32_t ia = rig_score(ra, c.tokens + chunk * 48, 48), ib = rig_score(rb, c.tokens + chunk * 48, 48),
             v = ra->n_vocab;
    rig_run(ra, 0);
    rig_run(rb, 0);
    for (uint32_t pos = 20; pos < 47; pos++) {
      const float *x = ra->r[ia].rows + pos * v, *y = rb->r[ib].rows + pos * v;
      double zx = 0, zy = 0, kld = 0;
      for (uint32_t i = 0; i < v; i++) zx += exp((double)x[i]), zy += exp((double)y[i]);
      for (uint32_t i = 0; i < v; i++)
        kld += exp((double)y[i]) / zy * ((double)y[i] - log(zy) - (double)x[i] + log(zx));
      const tn_kld_token *t = &q.tokens[chunk * 27 + pos - 20];
      int32_t next = c.tokens[chunk * 48 + pos + 1];
      cr_expect(epsilon_eq(dbl, t->kld, kld, 1e-12), "%g, alone %g", t->kld, kld);
      cr_expect(epsilon_eq(dbl, t->nll, log(zx) - (double)x[next], 1e-12));
      cr_expect(epsilon_eq(dbl, t->nll_base, log(zy) - (double)y[next], 1e-12));
      if (kld > largest) largest = kld;
    }
  }
  cr_expect(gt(dbl, largest, 1e-9), "the compositions do not differ: the test shows nothing");
  rig_close(ra);
  rig_close(rb);
  tn_quality_free(&q);
  tn_chunks_free(&c);
  quality_close(a);
  quality_close(b);
}

/* A budget that is a share of the prompt acts on the chunk's first n_prompt tokens, whatever is scored. */
Test(measure_quality, eviction_sees_the_chunks_prompt)
{
  static const char *const snap[] = {"compose.eviction=snapkv", "compose.memory=paged", "eviction.snapkv.share=0.5",
                                     "eviction.snapkv.window=4", NULL};
  quality_rig *a = quality_open("llama", snap), *b = quality_open("llama", NULL);
  tn_chunks c = quality_chunks(a, 1, 60, 40);
  tn_quality q = measured(a, b, &c);
  double sum = 0;
  for (int64_t i = 0; i < q.n; i++) sum += q.tokens[i].kld;
  cr_expect(gt(dbl, sum, 1e-6), "nothing was evicted");
  c.n_prompt = 50; /* evicted later: the rows before are untouched */
  tn_quality later = measured(a, b, &c);
  cr_expect(gt(dbl, later.tokens[0].kld, 0.0));
  tn_quality_free(&q);
  tn_quality_free(&later);
  tn_chunks_free(&c);
  quality_close(a);
  quality_close(b);
}

static uint64_t counter(const quality_rig *r, const char *name)
{
  tn_counter c[64];
  uint32_t n = tn_engine_counters(r->s.engine, c, 64);
  for (uint32_t i = 0; i < n && i < 64; i++)
    if (!strcmp(c[i].counter, name)) return c[i].value;
  return 0;
}

/* Token by token, drafts verified against the text, the rows are those of a prompt: with a policy that acts at the
 * prompt's end as well. The text repeats itself, so that drafts are accepted. */
Test(measure_quality, one_token_at_a_time)
{
  static const char *const sets[][6] = {{"compose.draft=ngram", NULL},
                                        {"compose.draft=ngram", "compose.eviction=snapkv", "compose.memory=paged",
                                         "eviction.snapkv.share=0.5", "eviction.snapkv.window=4", NULL},
                                        {"compose.draft=ngram", "compose.kv=int8", NULL}};
  for (size_t k = 0; k < sizeof sets / sizeof *sets; k++) {
    quality_rig *a = quality_open("llama", sets[k]), *b = quality_open("llama", sets[k]);
    tn_chunks c = quality_chunks(a, 2, 60, 30);
    for (int64_t i = 0; i < c.n_tokens; i++) c.tokens[i] = c.tokens[i % 7];
    tn_quality q = {0};
    tn_err err = tn_err_init();
    tn_quality_args args = {.tested = quality_subject(a), .reference = quality_subject(b), .chunks = &c};
    args.tested.decode = true;
    cr_assert(eq(int, tn_quality_measure(&args, &q, &err), TN_OK), "%s", err.msg);
    cr_assert(eq(i64, q.n, 58));
    for (int64_t i = 0; i < q.n; i++) cr_expect(eq(dbl, q.tokens[i].kld, 0.0), "%zu: token %ld", k, (long)i);
    cr_expect(gt(u64, counter(a, "accepted"), 10));
    cr_expect(eq(u64, counter(b, "drafted"), 0));
    tn_quality_free(&q);
    tn_chunks_free(&c);
    quality_close(a);
    quality_close(b);
  }
}

Test(measure_quality, forced_tokens_that_cannot_be)
{
  quality_rig *a = quality_open("llama", NULL);
  int32_t text[4] = {1, 2, 3, 1 << 20};
  uint64_t seq;
  tn_err err = tn_err_init();
  tn_request q = {.prompt = text,
                  .n_prompt = 2,
                  .max_new = 2,
                  .sampling = tn_sampling_default(),
                  .forced = text + 2,
                  .n_forced = 1};
  cr_expect(eq(int, tn_engine_submit(a->s.engine, &q, &seq, &err), TN_E_ARG));
  cr_expect(eq(str, err.msg, "max_new = 2: there are 1 forced tokens"));
  q.n_forced = 2;
  cr_expect(eq(int, tn_engine_submit(a->s.engine, &q, &seq, &err), TN_E_ARG));
  cr_expect(strstr(err.msg, "forced token 1 is 1048576: the vocabulary has ") != NULL, "%s", err.msg);
  quality_close(a);
}

typedef struct ending {
  int left;
} ending;

static bool end_after(void *ctx, const tn_quality *q)
{
  (void)q;
  return --((ending *)ctx)->left > 0;
}

static bool end_in(void *ctx) { return --((ending *)ctx)->left > 0; }

Test(measure_quality, ends_early_with_whole_chunks)
{
  quality_rig *a = quality_open("llama", (const char *[]){"engine.max_rows=16", NULL});
  tn_chunks c = quality_chunks(a, 4, 48, 24);
  tn_err err = tn_err_init();
  tn_quality q = {0}, whole = measured(a, NULL, &c);
  ending two = {2}, six = {6};
  tn_quality_args args = {.tested = quality_subject(a), .chunks = &c, .chunk = end_after, .ctx = &two};
  cr_assert(eq(int, tn_quality_measure(&args, &q, &err), TN_OK));
  cr_expect(eq(u32, q.n_done, 2));
  cr_expect(eq(i64, q.n, 46));
  args = (tn_quality_args){.tested = quality_subject(a), .chunks = &c, .on = end_in, .ctx = &six};
  cr_assert(eq(int, tn_quality_measure(&args, &q, &err), TN_OK)); /* goes on behind what is there */
  cr_expect(eq(u32, q.n_done, 3), "%u", q.n_done);
  args.on = NULL;
  cr_assert(eq(int, tn_quality_measure(&args, &q, &err), TN_OK));
  cr_assert(eq(i64, q.n, whole.n));
  for (int64_t i = 0; i < q.n; i++) cr_expect(eq(dbl, q.tokens[i].nll, whole.tokens[i].nll));
  tn_quality_free(&q);
  tn_quality_free(&whole);
  tn_chunks_free(&c);
  quality_close(a);
}
