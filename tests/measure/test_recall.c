/* Texts with something to find in them: their length, where the facts stand, and that the answer can be found. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <string.h>

#include "measure/recall.h"
#include "model/gguf.h"
#include "support/engine_rig.h"

static tn_gguf *file;
static tn_tokenizer *tok;
static const char hay[] = "It rained in the morning. Later the sun came out. Nobody was there to see it.\n";

static void setup(void)
{
  tn_err err = tn_err_init();
  cr_assert(tn_gguf_open(rig_tiny("llama"), &file, &err) == TN_OK, "%s", err.msg);
  cr_assert(tn_tokenizer_load(file, &tok, &err) == TN_OK, "%s", err.msg);
}

static void teardown(void)
{
  tn_tokenizer_free(tok);
  tn_gguf_close(file);
}
TestSuite(measure_recall, .init = setup, .fini = teardown, .timeout = 60);

static tn_recall made(uint32_t kind, int64_t length, double depth, uint64_t seed)
{
  tn_recall r;
  tn_err err = tn_err_init();
  tn_recall_spec spec = {kind, length, depth, seed, {hay, sizeof hay - 1}};
  cr_assert(eq(int, tn_recall_make(tok, &spec, &r, &err), TN_OK), "%s", err.msg);
  cr_expect(eq(i64, r.n, length));
  cr_expect(r.n_prompt > 0 && r.n_prompt < r.n);
  return r;
}

static char *text_of(const int32_t *ids, int64_t n)
{
  char *text;
  size_t len;
  tn_err err = tn_err_init();
  cr_assert(eq(int, tn_detokenize(tok, ids, (size_t)n, 0, &text, &len, &err), TN_OK), "%s", err.msg);
  return text;
}

/* The answer's text occurs in the prompt, between these parts of it. */
static void found(uint32_t kind, double depth, double from, double to)
{
  tn_recall r = made(kind, 2000, depth, 3);
  char *prompt = text_of(r.tokens, r.n_prompt), *answer = text_of(r.tokens + r.n_prompt, r.n - r.n_prompt);
  const char *number = answer + (*answer == ' ');
  const char *at = strstr(prompt, number);
  cr_assert(at != NULL, "'%s' is not in: %s", answer, prompt);
  double place = (double)(at - prompt) / (double)strlen(prompt);
  cr_expect(place >= from && place <= to, "%s at %g: %g", tn_recall_names[kind], depth, place);
  free(prompt);
  free(answer);
  tn_recall_free(&r);
}

Test(measure_recall, facts_stand_at_their_depth)
{
  static const uint32_t kinds[] = {TN_RECALL_NEEDLE, TN_RECALL_PASSKEY, TN_RECALL_MULTIKEY};
  for (size_t i = 0; i < 3; i++) {
    found(kinds[i], 0, 0, 0.2);
    found(kinds[i], 0.5, 0.35, 0.65);
    found(kinds[i], 1, 0.7, 1);
  }
}

Test(measure_recall, four_keys_and_one_question)
{
  tn_recall r = made(TN_RECALL_MULTIKEY, 2500, 0.3, 5);
  char *prompt = text_of(r.tokens, r.n_prompt);
  int n = 0;
  for (const char *p = prompt; (p = strstr(p, "special magic numbers for ")); p++) n++;
  cr_expect(eq(int, n, 4), "%s", prompt);
  free(prompt);
  tn_recall_free(&r);
}

Test(measure_recall, the_chain_holds_together)
{
  tn_recall r = made(TN_RECALL_VARTRACK, 2000, 0, 5);
  char *prompt = text_of(r.tokens, r.n_prompt), *answer = text_of(r.tokens + r.n_prompt, r.n - r.n_prompt);
  char last[8] = "", fact[64];
  int n = 0;
  for (char *name = strtok(answer, " "); name; name = strtok(NULL, " "), n++) {
    snprintf(fact, sizeof fact, n ? "VAR %s = VAR %s." : "VAR %s = ", name, last);
    cr_expect(strstr(prompt, fact) != NULL, "no '%s' in %s", fact, prompt);
    snprintf(last, sizeof last, "%.7s", name);
  }
  cr_expect(eq(int, n, 5));
  free(prompt);
  free(answer);
  tn_recall_free(&r);
}

Test(measure_recall, a_seed_is_a_text)
{
  tn_recall a = made(TN_RECALL_NEEDLE, 1200, 0.5, 8), b = made(TN_RECALL_NEEDLE, 1200, 0.5, 8),
            c = made(TN_RECALL_NEEDLE, 1200, 0.5, 9);
  cr_expect(eq(int, memcmp(a.tokens, b.tokens, 1200 * sizeof *a.tokens), 0));
  cr_expect(memcmp(a.tokens, c.tokens, 1200 * sizeof *a.tokens) != 0);
  tn_recall_free(&a);
  tn_recall_free(&b);
  tn_recall_free(&c);
}

Test(measure_recall, too_short)
{
  tn_recall r;
  tn_err err = tn_err_init();
  tn_recall_spec spec = {TN_RECALL_NEEDLE, 40, 0.5, 1, {hay, sizeof hay - 1}};
  cr_expect(eq(int, tn_recall_make(tok, &spec, &r, &err), TN_E_ARG));
  cr_expect(strstr(err.msg, "a needle text of 40 tokens: what is to be said in it takes ") != NULL, "%s", err.msg);
  cr_expect(r.tokens == NULL);
  spec = (tn_recall_spec){TN_RECALL_NEEDLE, 2000, 1.5, 1, {hay, sizeof hay - 1}};
  cr_expect(eq(int, tn_recall_make(tok, &spec, &r, &err), TN_E_ARG));
  spec = (tn_recall_spec){TN_RECALL_NEEDLE, 2000, 1, 1, {"", 0}};
  cr_expect(eq(int, tn_recall_make(tok, &spec, &r, &err), TN_E_ARG));
  cr_expect(eq(str, err.msg, "the haystack has no tokens"));
}
