/* ngram: which run of tokens it finds, what it drafts behind it, and that a text that repeats itself is drafted whole. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <string.h>

#include "support/plugin_rig.h"

typedef struct drafter {
  plugin_rig *rig;
  const tn_draft_v1 *v;
  int32_t token[64], parent[64];
  uint32_t n;
} drafter;

static drafter drafter_of(const char *const *sets)
{
  drafter d = {.rig = plugin_rig_open(TN_SLOT_DRAFT, "ngram", sets)};
  d.v = d.rig->vtable;
  return d;
}

static void propose(drafter *d, const int32_t *tokens, int64_t n, uint32_t max_nodes)
{
  const float *q[64];
  tn_draft_req r = {.struct_size = sizeof r, .max_nodes = max_nodes, .seq = 1, .tokens = tokens, .n = n};
  tn_draft_tree t = {.struct_size = sizeof t, .token = d->token, .parent = d->parent, .q = q};
  cr_assert(d->v->propose(d->rig->inst, 1, (const tn_draft_req *const[]){&r}, (tn_draft_tree *const[]){&t}) == TN_OK);
  cr_assert(t.n <= max_nodes);
  d->n = t.n;
  for (uint32_t i = 0; i < d->n; i++) cr_assert(d->parent[i] == (int32_t)i - 1, "a chain");
}

/* Is the draft behind text just `want`? Both are strings of one-letter tokens. */
static void drafts(const char *const *sets, const char *text, const char *want)
{
  int32_t tokens[128];
  char got[65] = {0};
  int64_t n = (int64_t)strlen(text);
  drafter d = drafter_of(sets);
  for (int64_t i = 0; i < n; i++) tokens[i] = text[i];
  propose(&d, tokens, n, 32);
  for (uint32_t i = 0; i < d.n; i++) got[i] = (char)d.token[i];
  cr_expect(strcmp(got, want) == 0, "behind '%s': '%s', want '%s'", text, got, want);
  plugin_rig_close(d.rig);
}

#define SETS(...) ((const char *const[]){__VA_ARGS__, NULL})

Test(policy_ngram, finds_the_longest_and_latest_run)
{
  drafts(SETS("k=3"), "abcdefabc", "def");
  drafts(SETS("k=2"), "abcXabcYabc", "Ya");   /* of two, the latest */
  drafts(SETS("k=1"), "xbcPabcQbcRabc", "Q"); /* of several, the longest */
  drafts(SETS("k=1", "max_n=1"), "abcQbXabc", "Q");
  drafts(SETS("k=1", "max_n=2"), "abQcbRab", "Q");
  drafts(SETS("k=2"), "aab", "");
  drafts(SETS("k=2"), "abca", "bc");
  drafts(SETS("k=2", "min_n=2"), "abca", ""); /* one token is too short a run */
  drafts(SETS("k=2", "min_n=2"), "abcab", "ca");
  drafts(SETS("k=2"), "a", "");
  drafts(SETS("k=2"), "ab", "");
}

/* Where the run is near the end of the text, the draft goes on with itself. */
Test(policy_ngram, goes_on_with_its_own_draft)
{
  drafts(SETS("k=7"), "xabab", "abababa");
  drafts(SETS("k=5"), "aa", "aaaaa");
  drafts(SETS("k=6"), "abcabc", "abcabc");
}

Test(policy_ngram, stays_in_its_limits)
{
  static const int32_t same[4] = {5, 5, 5, 5};
  drafter d = drafter_of(SETS("k=8"));
  tn_draft_spec spec = {.struct_size = sizeof spec};
  cr_assert(d.v->describe(d.rig->inst, NULL, &spec, NULL) == TN_OK);
  cr_expect(spec.max_nodes == 8 && spec.max_depth == 8 && spec.q_kind == TN_Q_DELTA && spec.tree == 0 &&
            spec.n_taps == 0);
  for (uint32_t most = 0; most <= 10; most++) {
    propose(&d, same, 4, most);
    cr_expect(eq(u32, d.n, most < 8 ? most : 8));
  }
  plugin_rig_close(d.rig);
}

Test(policy_ngram, a_longest_run_under_the_shortest_is_refused)
{
  plugin_rig *p = plugin_rig_open(TN_SLOT_DRAFT, "ngram", SETS("max_n=2", "min_n=3"));
  tn_err err = tn_err_init();
  cr_expect(plugin_rig_validate(p, NULL, &err) == TN_E_ARG);
  cr_expect(strstr(err.msg, "min_n") && strstr(err.msg, "max_n"), "%s", err.msg);
  plugin_rig_close(p);
  p = plugin_rig_open(TN_SLOT_DRAFT, "ngram", NULL);
  cr_expect(plugin_rig_validate(p, NULL, &err) == TN_OK);
  plugin_rig_close(p);
}

/* A text with a period: once it has been seen, every draft is right to its end, so k + 1 tokens come of each pass. */
Test(policy_ngram, a_repeated_text_gives_k_plus_1_tokens_a_pass)
{
  static int32_t text[2000];
  for (int period = 1; period <= 40; period += 13)
    for (int64_t k = 1; k <= 8; k++) {
      char set[16];
      snprintf(set, sizeof set, "k=%d", (int)k);
      drafter d = drafter_of(SETS(set));
      uint32_t passes = 0;
      int64_t from = period + 3, at = from;
      for (int i = 0; i < 2000; i++) text[i] = 100 + (i % period) * 7 % 41 + i % period;
      for (; at + k + 1 < 2000; passes++) {
        propose(&d, text, at, 32);
        int64_t right = 0;
        while (right < d.n && d.token[right] == text[at + right]) right++;
        at += right + 1;
        const tn_draft_outcome out = {.struct_size = sizeof out, .n_path = (uint32_t)right};
        cr_assert(d.v->outcome(d.rig->inst, 1, (const tn_draft_outcome *const[]){&out}) == TN_OK);
      }
      cr_expect(eq(i64, at - from, passes * (k + 1)), "period %d, k %d", period, (int)k);
      cr_expect(plugin_rig_count(d.rig, 0) == passes * (uint64_t)k &&
                plugin_rig_count(d.rig, 1) == passes * (uint64_t)k);
      plugin_rig_close(d.rig);
    }
}
