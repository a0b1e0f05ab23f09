/* Plugins that claim to be exact are: whatever options are set that are not said to change tokens, and behind a long
 * text, they say the baseline's tokens. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <string.h>

#include "support/engine_rig.h"

enum { LONG = 1040, SHORT = 150, NEW = 8 }; /* LONG: more than any pattern of attention sees by default */

/* conf/default.ini with up to two settings more; NULL: refused. */
static rig *said(const char *a, const char *b, int64_t n_prompt)
{
  const char *sets[] = {"engine.threads=1", "engine.ctx=1200", "memory.paged.page_tokens=16", a, a ? b : NULL, NULL};
  int32_t prompt[LONG];
  rig *r;
  tn_err err = tn_err_init();
  if (rig_try(rig_tiny("llama"), sets, &r, &err) != TN_OK) {
    cr_assert(err.msg[0] != 0, "refused without a word: %s %s", a, b);
    return NULL;
  }
  rig_tokens(3, 16, prompt, n_prompt); /* few different tokens, so that a drafter finds something */
  rig_generate(r, prompt, n_prompt, NEW);
  rig_run(r, 0);
  cr_assert(eq(u32, r->r[0].n, NEW));
  return r;
}

/* 1 when the settings are taken; the test fails where they change the text. */
static uint32_t agrees(const rig *const baseline[2], bool is_long, const char *key, const char *option)
{
  rig *r = said(key, option, is_long ? LONG : SHORT);
  if (!r) return 0;
  cr_expect(memcmp(r->r[0].tokens, baseline[is_long]->r[0].tokens, NEW * sizeof(int32_t)) == 0,
            "%s %s changes the text", key, option ? option : "");
  rig_close(r);
  return 1;
}

/* The text of one end of p's range; false where it has none. */
static bool end_of(const tn_param *p, bool high, char *out, size_t n)
{
  if (p->type == TN_T_I64 && p->imin < p->imax)
    snprintf(out, n, "%lld", (long long)(high ? p->imax : p->imin));
  else if (p->type == TN_T_F64 && p->fmin < p->fmax)
    snprintf(out, n, "%.9g", high ? p->fmax : p->fmin);
  else if (p->type == TN_T_ENUM && p->n_choices > 0)
    snprintf(out, n, "%s", p->choices[high ? p->n_choices - 1 : 0]);
  else if (p->type == TN_T_BOOL)
    snprintf(out, n, "%s", high ? "true" : "false");
  else
    return false;
  return true;
}

/* How many compositions with the plugin were run. */
static uint32_t check_plugin(const rig *const baseline[2], const tn_desc *d)
{
  const char *slot = tn_slot_name(d->slot);
  char key[128], option[192], value[64];
  snprintf(key, sizeof key, "compose.%s=%s", slot, d->name);
  bool is_long = d->slot == TN_SLOT_ATTENTION;
  uint32_t n = agrees(baseline, is_long, key, NULL);
  for (size_t i = 0; d->params && d->params[i]; i++)
    for (int high = 0; high < 2; high++) {
      if ((d->params[i]->flags & TN_P_OUTPUT) || !end_of(d->params[i], high, value, sizeof value)) continue;
      if (snprintf(option, sizeof option, "%s.%s.%s=%s", slot, d->name, d->params[i]->key, value) < 0) continue;
      n += agrees(baseline, is_long, key, option);
    }
  return n;
}

Test(engine_exact, claims_hold)
{
  tn_err err = tn_err_init();
  rig *const baseline[2] = {said(NULL, NULL, SHORT), said(NULL, NULL, LONG)};
  cr_assert(baseline[0] && baseline[1]);
  tn_loader *loader = baseline[0]->loader;
  tn_found_list list = {0};
  cr_assert(tn_loader_scan(loader, &list, &err) == TN_OK, "%s", err.msg);
  uint32_t exact = 0;
  for (size_t i = 0; i < list.n; i++) {
    const tn_plugin *p;
    if (list.at[i].shadowed || list.at[i].problem || !strstr(list.at[i].path, "/lib/tenon/")) continue;
    tn_status st = tn_loader_open(loader, list.at[i].slot, list.at[i].name, NULL, &p, &err);
    cr_assert(st == TN_OK, "%s", err.msg);
    if (!(p->desc->flags & TN_F_EXACT)) continue;
    exact++;
    cr_expect(check_plugin((const rig *const *)baseline, p->desc) > 0, "%s was refused in every form", p->desc->name);
  }
  cr_expect(exact >= 8, "only %u plugins claim to be exact", exact);
  tn_found_list_free(&list);
  rig_close(baseline[0]);
  rig_close(baseline[1]);
}
