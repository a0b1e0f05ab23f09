/* Greedy and typical walks down a tree, golden cases, and penalties that look at the path. */
#include "engine/verify.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "stats.h"

#define V 4

/* One-hot rows: row i says next[i]. */
static void one_hot(const int32_t *next, uint32_t n, float *rows)
{
  memset(rows, 0, n * V * sizeof *rows);
  for (uint32_t i = 0; i < n; i++) rows[i * V + (uint32_t)next[i]] = 5;
}

static tn_verify_out walk(const tn_sampling *how, uint32_t mode, const tn_tree *t, const float *rows, uint32_t n_vocab,
                          double eps, double delta)
{
  tn_verifier *v;
  cr_assert(tn_verifier_new(n_vocab, &v, NULL) == TN_OK);
  tn_history h = {0};
  tn_verify_out out;
  tn_verify_in in = {.mode = mode,
                     .n_vocab = n_vocab,
                     .sampling = how,
                     .history = &h,
                     .request = 1,
                     .pos = 10,
                     .logits = rows,
                     .tree = t,
                     .eps = eps,
                     .delta = delta};
  tn_verify(v, &in, &out);
  tn_verifier_free(v);
  return out;
}

/*        pending            says 2
 *       /   |   \
 *   0:1   1:2   2:3         node 1 says 3
 *         /  \
 *      3:0   4:3            node 4 says 1
 *             |  \
 *           5:0  6:2        nothing fits                   */
static const int32_t token[7] = {1, 2, 3, 0, 3, 0, 2};
static const int32_t parent[7] = {-1, -1, -1, 1, 1, 4, 4};
static const tn_tree bush = {7, TN_Q_DELTA, token, parent, (const float *const[7]){NULL}};
static const int32_t says[8] = {2, 0, 3, 0, 0, 1, 0, 0};

Test(engine_verify_walk, greedy_follows_the_arg_max)
{
  float rows[8 * V];
  tn_sampling how = tn_sampling_default();
  one_hot(says, 8, rows);
  for (uint32_t mode = TN_VERIFY_GREEDY; mode <= TN_VERIFY_TYPICAL; mode++) {
    tn_verify_out out = walk(&how, mode, &bush, rows, V, 0.09, 0.3);
    cr_assert(eq(u32, out.n_path, 2));
    cr_expect(out.path[0] == 1 && out.path[1] == 4 && out.next == 1, "mode %u", mode);
  }
  rows[2] = 0; /* the pending token now says nothing: all equal, and the lowest id wins */
  tn_verify_out out = walk(&how, TN_VERIFY_GREEDY, &bush, rows, V, 0, 0);
  cr_expect(out.n_path == 0 && out.next == 0);
}

Test(engine_verify_walk, a_drafter_that_is_right_or_wrong)
{
  enum { K = 8 };
  int32_t chain_token[K], chain_parent[K], next[K + 1];
  float rows[(K + 1) * V];
  tn_sampling how = tn_sampling_default();
  for (int i = 0; i <= K; i++) next[i] = (i * 7 + 1) % V;
  for (int i = 0; i < K; i++) chain_token[i] = next[i], chain_parent[i] = i - 1;
  tn_tree chain = {K, TN_Q_DELTA, chain_token, chain_parent, (const float *const[K]){NULL}};
  one_hot(next, K + 1, rows);
  tn_verify_out out = walk(&how, TN_VERIFY_GREEDY, &chain, rows, V, 0, 0);
  cr_expect(out.n_path == K && out.next == next[K]); /* all of them and one more */
  for (int wrong = 0; wrong < K; wrong++) {
    chain_token[wrong] = (next[wrong] + 1) % V;
    out = walk(&how, TN_VERIFY_GREEDY, &chain, rows, V, 0, 0);
    cr_expect(out.n_path == (uint32_t)wrong && out.next == next[wrong], "wrong at %d", wrong);
    chain_token[wrong] = next[wrong];
  }
}

/* The same token twice among the children: the first of them is followed. */
Test(engine_verify_walk, equal_children)
{
  static const int32_t twice[3] = {3, 2, 2}, top[3] = {-1, -1, -1};
  const tn_tree t = {3, TN_Q_DELTA, twice, top, (const float *const[3]){NULL}};
  float rows[4 * V];
  one_hot((const int32_t[4]){2, 0, 0, 1}, 4, rows);
  tn_sampling how = tn_sampling_default();
  tn_verify_out out = walk(&how, TN_VERIFY_GREEDY, &t, rows, V, 0, 0);
  cr_expect(out.n_path == 1 && out.path[0] == 1 && out.next == 0);
}

/* Every row says 1 first and 2 second, and a token that was said is barred: the path counts as said. */
Test(engine_verify_walk, penalties_see_the_path)
{
  static const int32_t chain[2] = {1, 2}, up[2] = {-1, 0};
  const tn_tree t = {2, TN_Q_DELTA, chain, up, (const float *const[2]){NULL}};
  float rows[3 * V];
  for (int i = 0; i < 3; i++) memcpy(rows + i * V, (const float[V]){0.5f, 3, 2, 0}, V * sizeof *rows);
  tn_sampling how = tn_sampling_default();
  how.repetition = 100;
  tn_verify_out out = walk(&how, TN_VERIFY_GREEDY, &t, rows, V, 0, 0);
  cr_expect(out.n_path == 2 && out.next == 0, "path %u, next %d", out.n_path, out.next);
  how.repetition = 1;
  out = walk(&how, TN_VERIFY_GREEDY, &t, rows, V, 0, 0);
  cr_expect(out.n_path == 1 && out.next == 1);
}

/* ---------------------------------------------------------------- typical acceptance */

/* One child of token 0 whose probability is p among n_vocab tokens, the rest shared evenly. Accepted? */
static bool typical(double p, uint32_t n_vocab, double eps, double delta)
{
  static const int32_t zero[1] = {0}, top[1] = {-1};
  const tn_tree t = {1, TN_Q_DELTA, zero, top, (const float *const[1]){NULL}};
  float *rows = calloc(2u * n_vocab, sizeof *rows);
  for (uint32_t i = 0; i < n_vocab; i++) rows[i] = (float)log(i == 0 ? p : (1 - p) / (n_vocab - 1));
  tn_sampling how = tn_sampling_default();
  how.temperature = 1;
  tn_verify_out out = walk(&how, TN_VERIFY_TYPICAL, &t, rows, n_vocab, eps, delta);
  free(rows);
  return out.n_path == 1;
}

Test(engine_verify_walk, typical_bars)
{
  cr_expect(typical(1 - 1e-9, 2, 0.09, 0.3));                                 /* a sure token */
  cr_expect(typical(0.0901, 2, 0.09, 0.3) && !typical(0.0899, 2, 0.09, 0.3)); /* little entropy: the bar is eps */
  /* 1000 equal tokens: exp(-H) = 0.001 + 1e-5, so the bar is 3.03e-4; its third digit shows in delta */
  cr_expect(typical(0.001, 1000, 0.09, 0.3));
  cr_expect(typical(0.001, 1000, 0.09, 0.985) && !typical(0.001, 1000, 0.09, 0.995));
  cr_expect(typical(0.001, 1000, 0.0009, 0.995), "eps is the lower of the two");
  cr_expect(typical(0.9, 2, 1, 1e9) == false, "a bar of 1 accepts nothing");
}

Test(engine_verify_walk, a_higher_eps_never_accepts_more)
{
  uint64_t state = 3;
  for (int c = 0; c < 500; c++) {
    float rows[8 * V];
    for (int i = 0; i < 8 * V; i++) rows[i] = (float)(plain_uniform(&state) * 6);
    tn_sampling how = tn_sampling_default();
    how.temperature = 1;
    uint32_t before = 8;
    for (double eps = 0.01; eps < 1.6; eps *= 1.5) {
      tn_verify_out out = walk(&how, TN_VERIFY_TYPICAL, &bush, rows, V, eps, 1e9);
      cr_assert(out.n_path <= before, "eps %g: %u nodes after %u", eps, out.n_path, before);
      before = out.n_path;
    }
    cr_assert(eq(u32, before, 0));
  }
}

/* Typical acceptance is not lossless: over a flat law its first token is always the drafted one. */
Test(engine_verify_walk, typical_is_biased)
{
  static const int32_t zero[1] = {2}, top[1] = {-1};
  static const double flat[V] = {0.25, 0.25, 0.25, 0.25};
  const tn_tree t = {1, TN_Q_DELTA, zero, top, (const float *const[1]){NULL}};
  float rows[2 * V] = {0};
  uint64_t n[V] = {0};
  tn_sampling how = tn_sampling_default();
  how.temperature = 1;
  for (int r = 0; r < 400; r++) {
    tn_verify_out out = walk(&how, TN_VERIFY_TYPICAL, &t, rows, V, 0.09, 0.3);
    n[out.n_path ? zero[0] : out.next]++;
  }
  cr_expect(chi_square(n, flat, V) > 8);
}
