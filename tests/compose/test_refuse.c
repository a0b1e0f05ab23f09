/* Refusals: the whole sentence of each kind. Every suggestion in them has been resolved, so it works when followed. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <string.h>

#include "compose/composed.h"

Test(refuse, base_works) { cr_assert(eq(str, refusal(""), "works")); }

Test(refuse, need_that_another_backend_meets)
{
  cr_assert(
      eq(str, refusal("[compose]\neviction = heavy\n"),
         "eviction = heavy (a.ini:2) does not work with backend = fast (base.ini:2): heavy needs attention scores "
         "per head (attn.scores/1), which fast does not offer; nearest working change: backend = whole, or no "
         "eviction"));
  cr_assert(eq(str, refusal("[compose]\neviction = heavy\nbackend = whole\n"), "works"));
}

Test(refuse, need_that_another_memory_meets)
{
  cr_assert(
      eq(str, refusal("[compose]\neviction = last\nmemory = slab\n"),
         "eviction = last (a.ini:2) does not work with memory = slab (a.ini:3): last needs dropping tokens from the "
         "cache (kv.token_drop/1), which slab does not offer; nearest working change: memory = pages, or no "
         "eviction"));
}

/* A plugin's trait brings a need with it. */
Test(refuse, tree_needs_tree_attention)
{
  cr_assert(eq(str, refusal("[compose]\ndraft = branch\n"),
               "draft = branch (a.ini:2) does not work with backend = fast (base.ini:2): branch needs attention over "
               "drafted trees (attn.tree/1), which fast does not offer; nearest working change: backend = whole, or no "
               "draft"));
}

/* An ability is no conflict until a part needs it: the memory alone offers what `names` excludes. */
Test(refuse, conflict_with_an_ability_in_use)
{
  cr_assert(eq(str, refusal("[compose]\nattention = names\n"), "works"));
  cr_assert(
      eq(str, refusal("[compose]\nattention = names\neviction = last\n"),
         "attention = names (a.ini:2) does not work with eviction = last (a.ini:3): names excludes dropping tokens "
         "from the cache (kv.token_drop/1), which last needs; nearest working change: no eviction, or "
         "attention = plain"));
}

Test(refuse, conflict_with_a_trait)
{
  cr_assert(eq(str, refusal("[compose]\nbackend = whole\nparallel = split\neviction = heavy\n"),
               "parallel = split (a.ini:3) does not work with eviction = heavy (a.ini:4): split excludes a cache that "
               "depends on what was attended before (kv.history/1), which heavy brings; nearest working change: no "
               "eviction, or no parallel"));
}

Test(refuse, option_of_the_engine)
{
  cr_assert(eq(str, refusal("[compose]\ndraft = guess\n"),
               "engine.verify = lossless (default) does not work with draft = guess (a.ini:2): verify = lossless needs "
               "the law that each draft was drawn from (draft.lossless/1), which guess does not offer; nearest working "
               "change: engine.verify = greedy, or no draft"));
  cr_assert(eq(str, refusal("[compose]\ndraft = guess\n[engine]\nverify = typical\n"), "works"));
  cr_assert(eq(str, refusal("[engine]\nactivations = int8\n"), "works"));
}

Test(refuse, untrained_has_to_be_allowed)
{
  cr_assert(
      eq(str, refusal("[compose]\nweights = odd\n"),
         "engine.allow_untrained = false (default) does not work with weights = odd (a.ini:2): allow_untrained = "
         "false excludes weights that the model was not trained for (weight.untrained/1), which odd brings; nearest "
         "working change: engine.allow_untrained = true, or no weights"));
  cr_assert(eq(str, refusal("[compose]\nweights = odd\n[engine]\nallow_untrained = yes\n"), "works"));
}

/* Under kv only tokens of the cache count, so `odd` is no trouble there. */
Test(refuse, tokens_of_a_quantizer_by_key) { cr_assert(eq(str, refusal("[compose]\nkv = odd\n"), "works")); }

Test(refuse, no_layer_keeps_entries)
{
#define RECUR "[engine]\nallow_untrained = yes\n[compose]\nbackend = whole\n"
  cr_assert(eq(str, refusal(RECUR "attention = recur\n"), "works"));
  cr_assert(
      eq(str, refusal(RECUR "attention = recur\nkv = q8\n"),
         "kv = q8 (a.ini:6) does not work with attention = recur (a.ini:5): q8 needs a cache entry for each token "
         "(kv.entries/1), which recur does not offer; nearest working change: no kv, or attention = plain"));
  cr_assert(eq(str, refusal(RECUR "attention = recur\neviction = last\n"),
               "eviction = last (a.ini:6) does not work with attention = recur (a.ini:5): last needs a cache entry for "
               "each token (kv.entries/1), which recur does not offer; nearest working change: no eviction, or "
               "attention = plain"));
  cr_assert(eq(str, refusal(RECUR "attention.layers = 0:plain, 1-:recur\nkv = q8\n"), "works"),
            "the layers of the other kind keep entries");
  cr_assert(
      eq(str, refusal(RECUR "attention.layers = 0-1:recur, 2-:recur\nkv = q8\n"),
         "kv = q8 (a.ini:6) does not work with attention = recur (a.ini:5): q8 needs a cache entry for each token "
         "(kv.entries/1), which recur does not offer; nearest working change: no kv, or attention = plain"),
      "neighbouring ranges of one plugin are one part");
}

Test(refuse, one_range_of_layers)
{
  cr_assert(
      eq(str, refusal("[compose]\nattention.layers = 0-1:plain, 2-:recur\n[engine]\nallow_untrained = yes\n"),
         "attention.layers = 2-:recur (a.ini:2) does not work with backend = fast (base.ini:2): recur needs "
         "recurrent attention (attn.state/1), which fast does not offer; nearest working change: backend = whole, "
         "or attention.layers = 0-1:plain, 2-:plain"));
}

Test(refuse, quantizer_without_a_layout_for_the_cache)
{
  cr_assert(eq(str, refusal("[compose]\nweights = wonly\n"), "works"));
  cr_assert(eq(str, refusal("[compose]\nkv = wonly\n"),
               "kv = wonly (a.ini:2) does not work: wonly is a quantizer of weights only, it has no layout for cached "
               "keys and values; nearest working change: no kv, or kv = q8"));
}

Test(refuse, empty_slot)
{
  cr_assert(eq(str, refusal("[compose]\ndemote = q8\n"),
               "demote = q8 (a.ini:2) does not work without a plugin of slot eviction: q8 needs a policy that demotes "
               "entries to fewer bits (kv.demote/1); nearest working change: no demote"));
}

Test(refuse, token_that_nobody_knows)
{
  cr_assert(
      eq(str, refusal("[compose]\ndraft = alien\n"),
         "draft = alien (a.ini:2) does not work: alien needs org.token/1, which no part of the composition offers; "
         "nearest working change: no draft, or draft = look"));
}

Test(refuse, plugin_says_no)
{
  tn_compose_model model = small_model("");
  cr_assert(eq(str, refusal_with("[compose]\nparallel = split\n", &model),
               "parallel = split (a.ini:2) does not work: 2 ranks do not divide 3 KV heads; nearest working change: "
               "parallel.split.world = 3, or no parallel"));
  cr_assert(eq(str, refusal_with("[compose]\nparallel = split\ndraft = guess\n", &model),
               "engine.verify = lossless (default) does not work with draft = guess (a.ini:3): verify = lossless needs "
               "the law that each draft was drawn from (draft.lossless/1), which guess does not offer; nearest working "
               "change: engine.verify = greedy and parallel.split.world = 3"),
            "a value among several changes");
  cr_assert(eq(str, refusal_with("[compose]\nparallel = split\n[parallel.split]\nworld = 3\n", &model), "works"));
  cr_assert(eq(str, refusal("[compose]\nparallel = split\n"), "works"), "without a model nothing is known");
}

/* Two faults: no single change is enough. */
Test(refuse, two_changes_at_once)
{
  cr_assert(
      eq(str, refusal("[compose]\neviction = heavy\ndraft = guess\n"),
         "eviction = heavy (a.ini:2) does not work with backend = fast (base.ini:2): heavy needs attention scores "
         "per head (attn.scores/1), which fast does not offer; nearest working change: backend = whole and "
         "engine.verify = greedy"));
}

Test(refuse, more_than_three_faults)
{
  cr_assert(eq(str, refusal("[compose]\nkv = wonly\ndemote = q8\ndraft = guess\neviction = heavy\n"),
               "kv = wonly (a.ini:2) does not work: wonly is a quantizer of weights only, it has no layout for cached "
               "keys and values; no change of up to three keys makes it work"));
  cr_assert(eq(str, refusal("[compose]\nkv = wonly\ndemote = q8\ndraft = guess\n"),
               "kv = wonly (a.ini:2) does not work: wonly is a quantizer of weights only, it has no layout for cached "
               "keys and values; nearest working change: no kv and no demote and engine.verify = greedy"));
}

/* A plugin that is not installed is not suggested. */
Test(refuse, suggestions_come_from_the_catalogue)
{
  composed w = {.mock = {.hide = "plain"}};
  composed_open(&w, "[compose]\nattention = recur\n[engine]\nallow_untrained=yes\n", true, NULL, NULL);
  cr_assert(w.c == NULL);
  cr_assert(strstr(w.err.msg, "nearest working change: backend = whole, or attention = window") != NULL, "%s",
            w.err.msg);
  composed_free(&w);
  w = (composed){.mock = {.hide = "whole"}};
  composed_open(&w, "[compose]\nattention = recur\nmemory = slab\n[engine]\nallow_untrained=yes\n", true, NULL, NULL);
  cr_assert(strstr(w.err.msg, "nearest working change: attention = plain") != NULL, "%s", w.err.msg);
  composed_free(&w);
}

/* Long paths leave room for the suggestion. */
Test(refuse, long_origins_are_cut)
{
  const char *sets[] = {"compose.eviction = heavy                                                            ", NULL};
  composed w = {0};
  composed_open(&w, "", true, sets, NULL);
  cr_assert(
      eq(str, w.err.msg,
         "eviction = heavy (...                                        ) does not work with backend = fast "
         "(base.ini:2): heavy needs attention scores per head (attn.scores/1), which fast does not offer; nearest "
         "working change: backend = whole, or no eviction"));
  composed_free(&w);
}
