/* An experiment analysed, reported, stored and read back, with each allocation failing in turn: TN_E_NOMEM, and nothing
 * stays behind. (The JSON library's own allocations are not among them.) */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ab/report.h"
#include "ab/store.h"
#include "oom.h"

static tn_ab_exp e, back;
static tn_ab_results r;
static char dir[64];

static tn_status fill(void)
{
  tn_ab_sample *row;
  tn_ab_exp_init(&e);
  e.n_variants = 2;
  for (uint32_t v = 0; v < 2; v++) {
    e.variant[v].name = tn_strdup(v ? "B" : "A");
    e.variant[v].title = tn_strdup("x.ini");
    e.variant[v].fingerprint = tn_strdup("00");
    if (!e.variant[v].name || !e.variant[v].title || !e.variant[v].fingerprint) return TN_E_NOMEM;
  }
  e.prompt[0].text = tn_strdup("words");
  e.n_prompts = 1;
  for (uint32_t b = 0; b < 12; b++) {
    if (!e.prompt[0].text || tn_ab_exp_block(&e, 0, &row) != TN_OK) return TN_E_NOMEM;
    for (uint32_t v = 0; v < 2; v++) {
      row[v].done = true;
      row[v].x[TN_AB_DECODE_TPS] = 50 + b + v + b * v % 3;
    }
  }
  return TN_OK;
}

static tn_status all(tn_err *err)
{
  char *html = NULL;
  tn_status st = fill();
  if (st == TN_OK) st = tn_ab_analyse(&e, &r, err);
  if (st == TN_OK) st = tn_ab_html(&e, &r, &html, err);
  free(html);
  if (st == TN_OK) st = tn_ab_store(&e, dir, err);
  tn_ab_exp_init(&back);
  if (st == TN_OK) st = tn_ab_load(&back, dir, err);
  tn_ab_exp_free(&back);
  tn_ab_exp_free(&e);
  return st;
}

Test(oom_ab, all)
{
  uint64_t n = 0;
  strcpy(dir, "/tmp/tenon-oom-XXXXXX");
  cr_assert(mkdtemp(dir) != NULL);
  for (bool last = false; !last;) {
    int64_t live = oom_live();
    tn_err err = tn_err_init();
    oom_arm(++n);
    tn_status st = all(&err);
    last = !oom_fired();
    cr_expect(eq(int, st, last ? TN_OK : TN_E_NOMEM), "allocation %lu: %s", (unsigned long)n, err.msg);
    cr_expect(eq(i64, oom_live(), live), "allocation %lu", (unsigned long)n);
  }
  cr_expect(gt(u64, n, 30));
  char command[128];
  snprintf(command, sizeof command, "rm -r %s", dir);
  cr_expect(zero(int, system(command)));
}
