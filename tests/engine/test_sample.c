/* From logits to a law: the order of its steps, ties, odd values, against a plain implementation that sorts everything. */
#include "engine/sample.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stats.h"

static tn_sampler *sampler(uint32_t n_vocab)
{
  tn_sampler *s;
  cr_assert(tn_sampler_new(n_vocab, &s, NULL) == TN_OK);
  return s;
}

/* ---------------------------------------------------------------- the plain implementation */

typedef struct entry {
  double x, p;
  int32_t id;
} entry;

static int best_first(const void *a, const void *b)
{
  const entry *x = a, *y = b;
  if (x->x != y->x) return x->x > y->x ? -1 : 1;
  return x->id - y->id;
}

static void plain_penalties(entry *e, uint32_t n_vocab, const tn_sampling *how, const int32_t *history, int64_t n)
{
  int64_t from = how->penalty_last < 0 || how->penalty_last > n ? 0 : n - how->penalty_last;
  for (uint32_t t = 0; t < n_vocab; t++) {
    int times = 0;
    for (int64_t i = from; i < n; i++) times += history[i] == (int32_t)t;
    if (times == 0) continue;
    e[t].x = e[t].x > 0 ? e[t].x / how->repetition : e[t].x * how->repetition;
    e[t].x -= how->presence + how->frequency * times;
  }
}

/* Fills e with the law's entries, best first; returns how many. */
static uint32_t plain_law(const float *logits, uint32_t n_vocab, const tn_sampling *how, const int32_t *history,
                          int64_t n_history, entry *e)
{
  for (uint32_t t = 0; t < n_vocab; t++) e[t] = (entry){(double)logits[t], 0, (int32_t)t};
  for (uint32_t i = 0; i < how->n_bias; i++) e[how->bias_token[i]].x += (double)how->bias[i];
  plain_penalties(e, n_vocab, how, history, n_history);
  qsort(e, n_vocab, sizeof *e, best_first);
  uint32_t n = n_vocab;
  while (n > 1 && e[n - 1].x == -INFINITY) n--;
  if (how->temperature == 0 || how->top_p == 0) n = 1;
  if (how->top_k > 0 && n > (uint32_t)how->top_k) n = (uint32_t)how->top_k;
  double total = 0, mass = 0;
  for (uint32_t i = 0; i < n; i++) total += exp(e[i].x - e[0].x);
  for (uint32_t i = 0; how->top_p < 1 && i < n; i++)
    if ((mass += exp(e[i].x - e[0].x)) >= how->top_p * total) n = i + 1;
  while (n > 1 && how->min_p > 0 && exp(e[n - 1].x - e[0].x) < how->min_p) n--;
  double sum = 0;
  for (uint32_t i = 0; i < n; i++) sum += e[i].p = n == 1 ? 1 : exp((e[i].x - e[0].x) / how->temperature);
  for (uint32_t i = 0; i < n; i++) e[i].p /= sum;
  return n;
}

static void same_law(const tn_law *law, const entry *want, uint32_t n, const char *what)
{
  double sum = 0;
  cr_assert(law->n == n, "%s: %u candidates, want %u", what, law->n, n);
  for (uint32_t i = 0; i < n; i++) {
    double p = tn_law_p(law, want[i].id);
    cr_assert(fabs(p - want[i].p) <= 1e-12 && (p > 0 || want[i].p < 1e-300), "%s: token %d: %.15g, want %.15g", what,
              want[i].id, p, want[i].p);
    sum += law->p[i];
  }
  cr_assert(fabs(sum - 1) < 1e-9, "%s: sum %.12g", what, sum);
}

/* ---------------------------------------------------------------- inputs that are hard to select from */

enum { RANDOM, EQUAL, RISING, FALLING, PIPE, TWO_VALUES, SAW, FEW_LEVELS, SOME_BANNED, N_SHAPES };

static float value(int shape, uint32_t i, uint32_t n, uint64_t *state)
{
  double u = plain_uniform(state);
  switch (shape) {
    case EQUAL: return 1.5f;
    case RISING: return (float)i * 0.01f;
    case FALLING: return (float)(n - i) * 0.01f;
    case PIPE: return (float)(i < n / 2 ? i : n - i) * 0.01f;
    case TWO_VALUES: return u < 0.5 ? 0.0f : 1.0f;
    case SAW: return (float)(i % 17) * 0.3f;
    case FEW_LEVELS: return (float)(int)(u * 9);
    case SOME_BANNED: return u < 0.4 ? -INFINITY : (float)(u * 8);
    default: return (float)(u * 20 - 10);
  }
}

Test(engine_sample, equals_a_full_sort)
{
  static float logits[5000];
  static entry want[5000];
  static const uint32_t sizes[] = {1, 2, 3, 5, 17, 64, 1000, 1024, 1025, 5000};
  static const int32_t ks[] = {0, 1, 2, 7, 40, 1024, 4999};
  static const double top_ps[] = {1, 0.95, 0.5, 1e-9, 0.999999};
  uint64_t state = 1;
  int cases = 0;
  for (size_t z = 0; z < TN_ARRAY_LEN(sizes); z++) {
    tn_sampler *s = sampler(sizes[z]);
    for (int shape = 0; shape < N_SHAPES; shape++)
      for (size_t k = 0; k < TN_ARRAY_LEN(ks); k++, cases++) {
        for (uint32_t i = 0; i < sizes[z]; i++) logits[i] = value(shape, i, sizes[z], &state);
        tn_sampling how = tn_sampling_default();
        how.temperature = cases % 3 == 0 ? 1 : 0.2 + 2 * plain_uniform(&state);
        how.top_k = ks[k];
        how.top_p = top_ps[cases % 5];
        how.min_p = cases % 4 == 0 ? 0.05 : 0;
        uint32_t n = plain_law(logits, sizes[z], &how, NULL, 0, want);
        tn_law law = tn_sampler_law(s, &how, logits, NULL);
        char what[96];
        snprintf(what, sizeof what, "V %u, shape %d, top_k %d, top_p %g", sizes[z], shape, ks[k], how.top_p);
        same_law(&law, want, n, what);
      }
    tn_sampler_free(s);
  }
}

Test(engine_sample, penalties_and_bias_equal_the_plain_ones)
{
  enum { V = 50 };
  tn_sampler *s = sampler(V);
  uint64_t state = 2;
  for (int c = 0; c < 2000; c++) {
    float logits[V];
    entry want[V];
    int32_t history[40], bias_token[3];
    float bias[3];
    for (int i = 0; i < V; i++) logits[i] = value(RANDOM, 0, V, &state);
    for (int i = 0; i < 40; i++) history[i] = (int32_t)(plain_uniform(&state) * V);
    for (int i = 0; i < 3; i++) bias_token[i] = history[i], bias[i] = (float)(plain_uniform(&state) * 4 - 2);
    tn_sampling how = tn_sampling_default();
    how.temperature = c % 5 ? 0.9 : 0;
    how.repetition = c % 2 ? 1.3 : 0.8;
    how.presence = plain_uniform(&state) * 4 - 2;
    how.frequency = plain_uniform(&state) * 4 - 2;
    how.penalty_last = (int32_t)(c % 45) - 1; /* -1: all; some longer than the history */
    how.n_bias = c % 3 ? 3 : 0, how.bias_token = bias_token, how.bias = bias;
    uint32_t path = (uint32_t)c % 7; /* the last tokens of the history stand on a tree's path */
    tn_history h = {.tokens = history, .n = 40 - path, .path = history + 40 - path, .n_path = path};
    uint32_t n = plain_law(logits, V, &how, history, 40, want);
    tn_law law = tn_sampler_law(s, &how, logits, &h);
    same_law(&law, want, n, "penalties");
  }
  tn_sampler_free(s);
}

/* ---------------------------------------------------------------- by hand */

static const float quarters[4] = {-0.693147180559945f, -1.386294361119891f, -2.079441541679836f, -2.079441541679836f};

/* The law's size for log(1/2, 1/4, 1/8, 1/8) under one setting. */
static uint32_t size_under(tn_sampling how)
{
  tn_sampler *s = sampler(4);
  uint32_t n = tn_sampler_law(s, &how, quarters, NULL).n;
  tn_sampler_free(s);
  return n;
}

Test(engine_sample, order_of_the_steps)
{
  tn_sampling how = tn_sampling_default();
  how.temperature = 1;
  cr_expect(eq(u32, size_under(how), 4));
  how.top_p = 0.8;
  cr_expect(eq(u32, size_under(how), 3)); /* 1/2 + 1/4 < 0.8 */
  how.top_k = 3;
  cr_expect(eq(u32, size_under(how), 2), "top-p is of what top-k left: 6/7 >= 0.8");
  how.top_k = 0;
  how.top_p = 0.7;
  how.temperature = 100;
  cr_expect(eq(u32, size_under(how), 2), "temperature comes last");
  how.top_p = 1;
  how.min_p = 0.3;
  cr_expect(eq(u32, size_under(how), 2), "min-p is relative to the best, before temperature");
  how.min_p = 0.2;
  cr_expect(eq(u32, size_under(how), 4));
}

Test(engine_sample, penalties_by_hand)
{
  static const float logits[3] = {2, -2, 1};
  static const int32_t history[3] = {0, 1, 1};
  tn_sampler *s = sampler(3);
  tn_sampling how = tn_sampling_default();
  how.temperature = 1, how.repetition = 2, how.presence = 0.5, how.frequency = 0.25;
  tn_history h = {.tokens = history, .n = 3};
  tn_law law = tn_sampler_law(s, &how, logits, &h); /* 2/2 - .75, -2*2 - 1, 1 */
  cr_expect(epsilon_eq(dbl, tn_law_p(&law, 0) / tn_law_p(&law, 2), exp(0.25 - 1), 1e-12));
  cr_expect(epsilon_eq(dbl, tn_law_p(&law, 1) / tn_law_p(&law, 2), exp(-5 - 1.0), 1e-12));
  how.penalty_last = 1; /* only the last 1 */
  law = tn_sampler_law(s, &how, logits, &h);
  cr_expect(epsilon_eq(dbl, tn_law_p(&law, 0) / tn_law_p(&law, 2), exp(2 - 1.0), 1e-12));
  cr_expect(epsilon_eq(dbl, tn_law_p(&law, 1) / tn_law_p(&law, 2), exp(-4.75 - 1), 1e-12));
  how.penalty_last = 0;
  law = tn_sampler_law(s, &how, logits, &h);
  cr_expect(epsilon_eq(dbl, tn_law_p(&law, 1) / tn_law_p(&law, 2), exp(-2 - 1.0), 1e-12));
  tn_sampler_free(s);
}

/* ---------------------------------------------------------------- greedy, ties, odd values */

Test(engine_sample, four_ways_to_say_greedy)
{
  static const float logits[6] = {1, 3, 2, 3, -INFINITY, 3};
  tn_sampler *s = sampler(6);
  for (int way = 0; way < 4; way++) {
    tn_sampling how = tn_sampling_default();
    how.temperature = way == 0 ? 0 : 1.7;
    if (way == 1) how.top_k = 1;
    if (way == 2) how.top_p = 0;
    if (way == 3) how.top_p = 1e-12;
    cr_expect(tn_sampling_check(&how, 6, NULL) == TN_OK);
    tn_law law = tn_sampler_law(s, &how, logits, NULL);
    cr_expect(law.n == 1 && law.id[0] == 1 && law.p[0] == 1, "way %d: the first of three equal logits", way);
    cr_expect(tn_law_draw(&law, 0.999) == 1);
  }
  tn_sampler_free(s);
}

Test(engine_sample, ties_go_to_the_lowest_id)
{
  enum { V = 300 };
  float logits[V];
  tn_sampler *s = sampler(V);
  for (int i = 0; i < V; i++) logits[i] = (float)(i % 3); /* 100 times 2 */
  tn_sampling how = tn_sampling_default();
  how.temperature = 1;
  how.top_k = 10;
  tn_law law = tn_sampler_law(s, &how, logits, NULL);
  cr_assert(eq(u32, law.n, 10));
  for (uint32_t i = 0; i < 10; i++) cr_expect(law.id[i] == 2 + 3 * (int32_t)i && law.p[i] == 0.1);
  tn_sampler_free(s);
}

Test(engine_sample, nan_and_infinities)
{
  tn_sampler *s = sampler(4);
  tn_sampling how = tn_sampling_default();
  how.temperature = 1;
  const float nan_first[4] = {NAN, 1, 2, NAN};
  tn_law law = tn_sampler_law(s, &how, nan_first, NULL);
  cr_expect(law.n == 2 && tn_law_p(&law, 0) == 0 && tn_law_p(&law, 3) == 0 && tn_law_p(&law, 2) > 0.7);
  cr_expect(eq(i32, tn_argmax(nan_first, 4), 2));
  how.top_k = 2, how.top_p = 0.99;
  law = tn_sampler_law(s, &how, nan_first, NULL);
  cr_expect(law.n == 2 && law.id[0] == 2);
  const float one_left[4] = {-INFINITY, -INFINITY, -50, -INFINITY};
  law = tn_sampler_law(s, &how, one_left, NULL);
  cr_expect(law.n == 1 && law.id[0] == 2 && law.p[0] == 1);
  const float certain[4] = {1, INFINITY, 2, 3};
  law = tn_sampler_law(s, &how, certain, NULL);
  cr_expect(law.n == 1 && law.id[0] == 1);
  const float nothing[4] = {NAN, NAN, NAN, NAN};
  law = tn_sampler_law(s, &how, nothing, NULL);
  cr_expect(law.n == 1 && law.id[0] >= 0 && law.id[0] < 4);
  const float banned[4] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
  law = tn_sampler_law(s, &how, banned, NULL);
  cr_expect(law.n == 1 && law.id[0] == 0);
  const float far[4] = {-3e38f, 3e38f, 0, 3e38f};
  how = tn_sampling_default();
  how.temperature = 1e-300;
  law = tn_sampler_law(s, &how, far, NULL);
  cr_expect(tn_law_p(&law, 1) == 0.5 && tn_law_p(&law, 3) == 0.5 && tn_law_p(&law, 2) == 0);
  tn_sampler_free(s);
}

Test(engine_sample, a_bias_of_minus_infinity_bans)
{
  static const float logits[3] = {5, 4, 3};
  static const int32_t token[2] = {0, 1};
  static const float bias[2] = {-INFINITY, -INFINITY};
  tn_sampler *s = sampler(3);
  tn_sampling how = tn_sampling_default();
  how.n_bias = 2, how.bias_token = token, how.bias = bias;
  for (int t = 0; t < 2; t++) {
    how.temperature = t;
    tn_law law = tn_sampler_law(s, &how, logits, NULL);
    cr_expect(law.n == 1 && law.id[0] == 2);
  }
  tn_sampler_free(s);
}

Test(engine_sample, top_n)
{
  enum { V = 400 };
  float logits[V];
  int32_t id[V];
  entry want[V];
  uint64_t state = 4;
  for (int shape = 0; shape < N_SHAPES; shape++)
    for (uint32_t n = 0; n <= V; n = n * 3 / 2 + 1) {
      for (uint32_t i = 0; i < V; i++) {
        logits[i] = value(shape, i, V, &state);
        want[i] = (entry){(double)logits[i], 0, (int32_t)i};
      }
      qsort(want, V, sizeof *want, best_first);
      tn_top_n(logits, V, n, id);
      for (uint32_t i = 0; i < n; i++)
        cr_assert(id[i] == want[i].id, "shape %d, n %u: place %u is %d, want %d", shape, n, i, id[i], want[i].id);
    }
}

Test(engine_sample, top_n_puts_nan_last)
{
  const float logits[5] = {NAN, 1, NAN, 3, 2};
  int32_t id[5];
  tn_top_n(logits, 5, 3, id);
  cr_expect(id[0] == 3 && id[1] == 4 && id[2] == 1, "%d %d %d", id[0], id[1], id[2]);
  tn_top_n(logits, 5, 5, id);
  cr_expect(id[2] == 1 && id[3] == 0 && id[4] == 2, "%d %d %d", id[2], id[3], id[4]);
}

Test(engine_sample, log_sum_exp)
{
  enum { V = 3000 };
  static float logits[V];
  uint64_t state = 5;
  for (int c = 0; c < 50; c++) {
    long double sum = 0;
    float shift = (float)(c - 25) * 40;
    for (int i = 0; i < V; i++) logits[i] = (float)(plain_uniform(&state) * 30) + shift;
    for (int i = 0; i < V; i++) sum += expl((long double)logits[i] - (long double)shift);
    double want = (double)(logl(sum) + (long double)shift);
    cr_assert(fabs(tn_log_sum_exp(logits, V) - want) < 2e-6, "%.9g, want %.9g", tn_log_sum_exp(logits, V), want);
  }
  const float banned[3] = {-INFINITY, 0, -INFINITY};
  cr_expect(tn_log_sum_exp(banned, 3) == 0);
  cr_expect(tn_log_sum_exp(banned, 1) == -INFINITY);
}
