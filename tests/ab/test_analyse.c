/* analyse and store: verdicts of a made-up experiment, and the same again from a folder. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ab/report.h"
#include "ab/store.h"

static tn_ab_exp e;
static tn_ab_results r;
static char dir[64];

/* 20 blocks over 5 prompts: B decodes 5 % faster in noise of 1 %, its cache is half, its prompt speed the same. */
static void fill(double faster)
{
  tn_stat_rng rng = tn_stat_rng_of(11, 0);
  tn_ab_exp_init(&e);
  e.seed = 9;
  e.n_gen = 8;
  e.n_variants = 2;
  for (uint32_t v = 0; v < 2; v++) {
    char text[16];
    snprintf(text, sizeof text, "%c", 'A' + v);
    e.variant[v].name = strdup(text);
    e.variant[v].title = strdup(v ? "b <i>.ini" : "a.ini");
    e.variant[v].fingerprint = strdup("0123456789abcdef");
    e.variant[v].rss_bytes = 1e6;
  }
  for (int i = 0; i < 5; i++) e.prompt[e.n_prompts++] = (tn_ab_prompt){strdup("some words"), 2};
  for (uint32_t b = 0; b < 20; b++) {
    tn_ab_sample *row;
    cr_assert(tn_ab_exp_block(&e, b % 5, &row) == TN_OK);
    for (uint32_t v = 0; v < 2; v++) {
      row[v].done = true;
      row[v].x[TN_AB_DECODE_TPS] = (50 + b) * (v ? faster : 1) * (1 + 0.01 * (tn_stat_below(&rng, 2001) / 1000.0 - 1));
      row[v].x[TN_AB_PROMPT_TPS] = (500 + b) * (1 + 0.01 * (tn_stat_below(&rng, 2001) / 1000.0 - 1));
      row[v].x[TN_AB_KV_BYTES] = 1000 / (v + 1);
      row[v].x[TN_AB_MATCH] = v == 0 || b % 2;
    }
  }
}

static void analyse(void)
{
  tn_err err = tn_err_init();
  cr_assert(tn_ab_analyse(&e, &r, &err) == TN_OK, "%s", err.msg);
  tn_ab_pareto(&e, &r);
}

static void setup(void)
{
  strcpy(dir, "/tmp/tenon-ab-XXXXXX");
  cr_assert(mkdtemp(dir) != NULL);
}

static void teardown(void)
{
  char command[128];
  snprintf(command, sizeof command, "rm -rf %s", dir);
  cr_assert(system(command) == 0);
  tn_ab_exp_free(&e);
}
TestSuite(analyse, .init = setup, .fini = teardown);

Test(analyse, verdicts)
{
  fill(1.05);
  analyse();
  cr_expect(eq(u32, r.family, 2), "two metrics of time were measured");
  const tn_ab_result *speed = &r.at[1][TN_AB_DECODE_TPS], *prompt = &r.at[1][TN_AB_PROMPT_TPS];
  cr_expect(eq(u32, speed->verdict, TN_AB_BETTER));
  cr_expect(fabs(tn_ab_shown(TN_AB_DECODE_TPS, speed->s.est) - 5) < 0.7, "%g", speed->s.est);
  cr_expect(tn_ab_shown(TN_AB_DECODE_TPS, speed->s.lo) > 4 && tn_ab_shown(TN_AB_DECODE_TPS, speed->s.hi) < 6);
  cr_expect(eq(u32, prompt->verdict, TN_AB_UNSEEN));
  cr_expect(prompt->seen > 0.001 && prompt->seen < 0.02, "%g", prompt->seen);
  cr_expect(eq(u32, r.at[1][TN_AB_KV_BYTES].verdict, TN_AB_BETTER));
  cr_expect(fabs(tn_ab_shown(TN_AB_KV_BYTES, r.at[1][TN_AB_KV_BYTES].s.est) + 50) < 1e-9);
  cr_expect(eq(u32, r.at[1][TN_AB_MATCH].verdict, TN_AB_WORSE));
  cr_expect(eq(u32, r.at[1][TN_AB_RSS].verdict, TN_AB_READING));
  cr_expect(eq(u32, r.at[1][TN_AB_PPL].verdict, TN_AB_NOT_MEASURED));
  cr_expect(eq(u32, r.at[1][TN_AB_ACCEPT].verdict, TN_AB_NOT_MEASURED));
  char words[160];
  tn_ab_words(TN_AB_PROMPT_TPS, prompt, words);
  cr_expect(strstr(words, "no difference that this run could see (smallest it could have seen: ") == words, "%s",
            words);
}

Test(analyse, slower_is_worse)
{
  fill(0.95);
  analyse();
  cr_expect(eq(u32, r.at[1][TN_AB_DECODE_TPS].verdict, TN_AB_WORSE));
}

/* B is faster and smaller, but half of its texts differ: both stand. */
Test(analyse, pareto_front)
{
  fill(1.05);
  analyse();
  cr_expect(e.variant[0].pareto && e.variant[1].pareto);
  for (uint32_t b = 0; b < e.n_blocks; b++) e.sample[2 * b + 1].x[TN_AB_MATCH] = 1;
  analyse();
  cr_expect(e.variant[1].pareto && !e.variant[0].pareto);
}

Test(analyse, chunks_make_perplexity)
{
  fill(1);
  e.n_chunks = 12;
  e.nll = calloc(24, sizeof *e.nll);
  e.kld = calloc(24, sizeof *e.kld);
  for (int c = 0; c < 12; c++) {
    e.nll[c] = 2 + 0.1 * c;
    e.nll[12 + c] = e.nll[c] + 0.02 + 0.001 * (c % 3);
    e.kld[12 + c] = 0.01;
  }
  analyse();
  const tn_ab_result *ppl = &r.at[1][TN_AB_PPL], *kld = &r.at[1][TN_AB_KLD];
  cr_expect(fabs(ppl->a - exp(2.55)) < 1e-9 && fabs(ppl->b - exp(2.571)) < 1e-9);
  cr_expect(fabs(tn_ab_shown(TN_AB_PPL, ppl->s.est) - 100 * expm1(0.021)) < 1e-9);
  cr_expect(ppl->verdict == TN_AB_WORSE && kld->verdict == TN_AB_WORSE && fabs(kld->b - 0.01) < 1e-12);
}

/* PPL 14.7 against 28.3 on n chunks, all in the same direction. */
static const tn_ab_result *doubled(uint32_t n)
{
  fill(1);
  e.n_chunks = n;
  e.nll = calloc(2 * n, sizeof *e.nll);
  e.kld = calloc(2 * n, sizeof *e.kld);
  for (uint32_t c = 0; c < n; c++) {
    e.nll[c] = log(14.7) + 0.01 * (c % 3);
    e.nll[n + c] = log(28.3) + 0.01 * (c % 2);
    e.kld[n + c] = 0.5;
  }
  analyse();
  return &r.at[1][TN_AB_PPL];
}

/* 2 / 2^n passes 0.05 over the 4 tests of this experiment from 8 chunks on. */
Test(analyse, too_few_chunks_are_no_verdict)
{
  char words[160];
  const tn_ab_result *ppl = doubled(4);
  cr_expect(eq(u32, r.family, 4));
  cr_expect(eq(u32, ppl->verdict, TN_AB_TOO_FEW));
  cr_expect(eq(u32, r.at[1][TN_AB_KLD].verdict, TN_AB_TOO_FEW));
  tn_ab_words(TN_AB_PPL, ppl, words);
  cr_expect(strcmp(words, "too few chunks: 4, at least 8 are needed to see anything at this level") == 0, "%s", words);
  tn_ab_exp_free(&e);
  cr_expect(eq(u32, doubled(8)->verdict, TN_AB_WORSE));
}

Test(analyse, equal_chunks_are_equal)
{
  fill(1);
  e.n_chunks = 4;
  e.nll = calloc(8, sizeof *e.nll);
  for (int c = 0; c < 8; c++) e.nll[c] = 2 + c % 4;
  analyse();
  cr_expect(eq(u32, r.at[1][TN_AB_PPL].verdict, TN_AB_EQUAL));
}

Test(analyse, a_stored_experiment_gives_the_same_verdict)
{
  static tn_ab_exp back;
  static tn_ab_results again;
  tn_err err = tn_err_init();
  fill(1.05);
  e.n_chunks = 2;
  e.nll = calloc(4, sizeof *e.nll);
  e.nll[3] = 0.1;
  analyse();
  cr_assert(tn_ab_store(&e, dir, &err) == TN_OK, "%s", err.msg);
  tn_ab_exp_init(&back);
  cr_assert(tn_ab_load(&back, dir, &err) == TN_OK, "%s", err.msg);
  cr_assert(tn_ab_analyse(&back, &again, &err) == TN_OK);
  json_t *a = tn_ab_json(&e, &r), *b = tn_ab_json(&back, &again);
  for (uint32_t v = 0; v < 2; v++) back.variant[v].pareto = e.variant[v].pareto;
  json_decref(b);
  b = tn_ab_json(&back, &again);
  char *x = json_dumps(json_object_get(a, "comparisons"), 0), *y = json_dumps(json_object_get(b, "comparisons"), 0);
  cr_expect(strcmp(x, y) == 0, "%s\n%s", x, y);
  cr_expect(json_array_size(json_object_get(a, "comparisons")) == 6);
  free(x), free(y);
  json_decref(a), json_decref(b);
  tn_ab_exp_free(&back);
}

/* Edits a stored file with sed; the sentence that loading then says. */
static const char *spoilt(const char *file, const char *edit)
{
  static char said[1024];
  char command[256];
  static tn_ab_exp back;
  tn_err err = tn_err_init();
  cr_assert(tn_ab_store(&e, dir, &err) == TN_OK, "%s", err.msg);
  snprintf(command, sizeof command, "sed -i '%s' %s/%s", edit, dir, file);

  cr_assert(system(command) == 0);
  tn_ab_exp_init(&back);
  cr_expect(tn_ab_load(&back, dir, &err) != TN_OK, "%s", edit);
  tn_ab_exp_free(&back);
  snprintf(said, sizeof said, "%s", err.msg);
  return said;
}

Test(analyse, spoilt_files_are_refused)
{
  fill(1);
  cr_expect(strstr(spoilt("samples.jsonl", "3d"), "samples.jsonl:3: want block 1, variant A") != NULL);
  cr_expect(strstr(spoilt("samples.jsonl", "$d"), "ends within a block") != NULL);
  cr_expect(strstr(spoilt("samples.jsonl", "5s/{/[/"), "samples.jsonl:5:") != NULL);
  cr_expect(strstr(spoilt("experiment.json", "s/\"format\": 1/\"format\": 99/"), "format 99") != NULL);
  cr_expect(strstr(spoilt("experiment.json", "s/\"n_blocks\": 20/\"n_blocks\": 21/"), "20 blocks") != NULL);
  cr_expect(strstr(spoilt("experiment.json", "s/\"variants\"/\"others\"/"), "variants is missing") != NULL);
}

Test(analyse, the_page_stands_alone)
{
  tn_err err = tn_err_init();
  char *html;
  fill(1.05);
  analyse();
  cr_assert(tn_ab_html(&e, &r, &html, &err) == TN_OK);
  cr_expect(strstr(html, "b &lt;i&gt;.ini") != NULL && strstr(html, "<i>") == NULL);
  cr_expect(strstr(html, "http") == NULL && strstr(html, "<script") == NULL, "nothing from elsewhere");
  int plots = 0;
  for (const char *p = html; (p = strstr(p, "<svg ")) != NULL; p++) plots++;
  cr_expect(eq(int, plots, 3));
  cr_expect(strstr(html, "nan") == NULL && strstr(html, "inf") == NULL);
  free(html);
}
