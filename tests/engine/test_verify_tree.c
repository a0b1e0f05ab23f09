/* Whole verifications: the law of what comes out over chains and trees, greedy and typical walks, draws by position. */
#include "engine/verify.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "host/rng.h"
#include "stats.h"

#define V 5
#define RUNS 200000u
#define POS 40 /* of the first token that is decided */

/* A model whose law depends on the last two tokens of the path; logits[a][b]. */
typedef struct model {
  float logits[V + 1][V + 1][V];
} model;

static model random_model(uint64_t *state)
{
  model m;
  for (int a = 0; a <= V; a++)
    for (int b = 0; b <= V; b++)
      for (int t = 0; t < V; t++) m.logits[a][b][t] = (float)(plain_uniform(state) * 3);
  return m;
}

static const tn_sampling how = {.temperature = 0.8, .top_p = 1, .repetition = 1};

typedef struct tree {
  uint32_t n;
  int32_t token[16], parent[16];
  const float *q[16];
} tree;

static void add_node(tree *t, int32_t parent, int32_t token, const float *q)
{
  t->parent[t->n] = parent;
  t->token[t->n] = token;
  t->q[t->n++] = q;
}

/* Logits of the pending token (path empty) and of every node. */
static void fill_rows(const model *m, const tree *t, float rows[17][V])
{
  memcpy(rows[0], m->logits[V][V], sizeof rows[0]);
  for (uint32_t i = 0; i < t->n; i++) {
    int32_t before = t->parent[i] < 0 ? V : t->token[t->parent[i]];
    memcpy(rows[1 + i], m->logits[before][t->token[i]], sizeof rows[0]);
  }
}

static void verify(tn_verifier *v, const model *m, const tree *t, uint32_t q_kind, uint64_t request, tn_verify_out *out)
{
  float rows[17][V];
  fill_rows(m, t, rows);
  tn_tree in_tree = {t->n, q_kind, t->token, t->parent, t->q};
  tn_history h = {0};
  tn_verify_in in = {.mode = TN_VERIFY_LOSSLESS,
                     .n_vocab = V,
                     .sampling = &how,
                     .history = &h,
                     .request = request,
                     .pos = POS,
                     .logits = rows[0],
                     .tree = &in_tree};
  tn_verify(v, &in, out);
}

/* Plain sampling of the token at POS + depth behind tokens a, b. */
static int32_t plain(tn_verifier *v, const model *m, int32_t a, int32_t b, uint32_t depth, uint64_t request)
{
  tn_tree none = {.q_kind = TN_Q_DELTA};
  tn_history h = {0};
  tn_verify_out out;
  tn_verify_in in = {.mode = TN_VERIFY_LOSSLESS,
                     .n_vocab = V,
                     .sampling = &how,
                     .history = &h,
                     .request = request,
                     .pos = POS + depth,
                     .logits = m->logits[a][b],
                     .tree = &none};
  tn_verify(v, &in, &out);
  cr_assert(out.n_path == 0 && out.next >= 0 && out.next < V);
  return out.next;
}

/* The first three tokens of the text: what stands of the tree, what follows it, then plain decoding. */
static void first_three(tn_verifier *v, const model *m, const tree *t, uint32_t q_kind, uint64_t request,
                        int32_t text[3])
{
  tn_verify_out out;
  int32_t said[20];
  verify(v, m, t, q_kind, request, &out);
  uint32_t n = 0;
  for (; n < out.n_path; n++) said[n] = t->token[out.path[n]];
  said[n++] = out.next;
  for (; n < 3; n++) said[n] = plain(v, m, n > 1 ? said[n - 2] : V, said[n - 1], n, request);
  memcpy(text, said, 3 * sizeof *text);
}

static void softmax(const float *x, double *p)
{
  double sum = 0;
  for (int t = 0; t < V; t++) sum += p[t] = exp((double)x[t] / how.temperature);
  for (int t = 0; t < V; t++) p[t] /= sum;
}

/* The law of the first three tokens under plain decoding. */
static void law_of_three(const model *m, double law[V * V * V])
{
  double a[V], b[V], c[V];
  softmax(m->logits[V][V], a);
  for (int i = 0; i < V; i++) {
    softmax(m->logits[V][i], b);
    for (int j = 0; j < V; j++) {
      softmax(m->logits[i][j], c);
      for (int k = 0; k < V; k++) law[(i * V + j) * V + k] = a[i] * b[j] * c[k];
    }
  }
}

static int32_t draw(const float *q, double u, const bool *used)
{
  double left = 0, at = 0;
  int32_t last = 0;
  for (int t = 0; t < V; t++) left += used[t] ? 0 : (double)q[t];
  for (int32_t t = 0; t < V; t++) {
    if (used[t]) continue;
    last = t;
    if ((at += (double)q[t] / left) > u) break;
  }
  return last;
}

/* Two levels of `width` children under each node, drawn from q as `kind` says (DELTA: the lowest ids). width 1: a chain of
 * three. */
static tree drafted(float q[3][V], uint32_t kind, uint32_t width, uint64_t *state)
{
  tree t = {0};
  for (int32_t parent = -1; parent < (int32_t)(width == 1 ? 2 : width); parent++) {
    const float *law = q[parent < 0 ? 0 : width == 1 ? parent + 1 : 1];
    bool used[V] = {false};
    for (uint32_t c = 0; c < width; c++) {
      int32_t x = kind == TN_Q_DELTA ? (int32_t)c : draw(law, plain_uniform(state), used);
      if (kind == TN_Q_WOR) used[x] = true;
      add_node(&t, parent, x, kind == TN_Q_DELTA ? NULL : law);
    }
  }
  return t;
}

/* Deviate of RUNS texts from the plain law, with trees drawn as `drawn` and verified as `verified`. */
static double deviate(uint32_t drawn, uint32_t verified, uint32_t width, uint64_t seed)
{
  static uint64_t n[V * V * V];
  double law[V * V * V];
  uint64_t state = seed;
  model m = random_model(&state);
  float q[3][V];
  for (int i = 0; i < 3; i++) dyadic_law(&state, V, q[i]);
  tn_verifier *v;
  cr_assert(tn_verifier_new(V, &v, NULL) == TN_OK);
  memset(n, 0, sizeof n);
  for (uint64_t r = 0; r < RUNS; r++) {
    tree t = drafted(q, drawn, width, &state);
    int32_t text[3];
    first_three(v, &m, &t, verified, r, text);
    n[(text[0] * V + text[1]) * V + text[2]]++;
  }
  tn_verifier_free(v);
  law_of_three(&m, law);
  return chi_square(n, law, V * V * V);
}

Test(engine_verify_tree, chains_and_trees_keep_the_law)
{
  static const uint32_t kinds[3] = {TN_Q_DELTA, TN_Q_IID, TN_Q_WOR};
  for (int k = 0; k < 3; k++)
    for (uint32_t width = 1; width <= 3; width++) {
      double z = deviate(kinds[k], kinds[k], width, 10 * width + (uint64_t)k);
      cr_expect(z < 4, "kind %u, width %u: %g", kinds[k], width, z);
    }
}

Test(engine_verify_tree, a_wrong_rule_is_seen)
{
  cr_expect(deviate(TN_Q_WOR, TN_Q_IID, 3, 31) > 8, "%g", deviate(TN_Q_WOR, TN_Q_IID, 3, 31));
  cr_expect(deviate(TN_Q_IID, TN_Q_WOR, 3, 31) > 8);
}

/* Chosen children change nothing at all: the text is that of plain decoding with the same key. */
Test(engine_verify_tree, chosen_children_leave_every_token)
{
  uint64_t state = 7;
  tn_verifier *v;
  cr_assert(tn_verifier_new(V, &v, NULL) == TN_OK);
  uint32_t accepted = 0;
  for (uint64_t r = 0; r < 3000; r++) {
    model m = random_model(&state);
    float unused[3][V];
    tree t = drafted(unused, TN_Q_DELTA, 1 + (uint32_t)(r % 3), &state), none = {0};
    int32_t with[3], without[3];
    tn_verify_out out;
    first_three(v, &m, &t, TN_Q_DELTA, r, with);
    first_three(v, &m, &none, TN_Q_DELTA, r, without);
    cr_assert(memcmp(with, without, sizeof with) == 0, "request %lu", (unsigned long)r);
    verify(v, &m, &t, TN_Q_DELTA, r, &out);
    accepted += out.n_path;
  }
  cr_expect(accepted > 1000, "%u", accepted); /* and it was not for want of accepted children */
  tn_verifier_free(v);
}
