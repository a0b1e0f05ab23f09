/* ab_keep: an experiment as a folder and as a report, and one that is read back. See ab_int.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ab/report.h"
#include "ab/store.h"
#include "cli/ab_int.h"

/* The folder must not be there: an experiment is never mixed with another. Made before anything runs. */
tn_status ab_make_folder(const ab_args *a, tn_err *err)
{
  if (!a->out || mkdir(a->out, 0777) == 0) return TN_OK;
  return tn_fail(err, TN_E_IO, "-o %s: cannot be made: %s", a->out, strerror(errno));
}

/* The file of each variant, as it was. */
static tn_status keep_inputs(const ab_args *a, const tn_ab_exp *e, tn_err *err)
{
  tn_status st = TN_OK;
  for (uint32_t i = 0; st == TN_OK && i < e->n_variants; i++) {
    const ab_spec *s = &a->spec[i];
    char name[16], *text = NULL;
    size_t n = 0;
    if (!s->conf) continue;
    snprintf(name, sizeof name, "%s.ini", e->variant[i].name);
    st = tn_file_read(s->conf, TN_CONFIG_MAX_FILE, &text, &n, err);
    if (st == TN_OK) st = tn_ab_write(a->out, name, text, n, err);
    free(text);
  }
  return st;
}

static tn_status keep_reports(const ab_args *a, const tn_ab_exp *e, const tn_ab_results *r, tn_err *err)
{
  tn_status st = TN_OK;
  char *html = NULL;
  if (a->html || a->out) st = tn_ab_html(e, r, &html, err);
  if (st == TN_OK && a->html) st = tn_ab_write(NULL, a->html, html, strlen(html), err);
  if (st == TN_OK && a->out) st = tn_ab_write(a->out, "report.html", html, strlen(html), err);
  free(html);
  if (st != TN_OK || !a->out) return st;
  json_t *j = tn_ab_json(e, r);
  char *text = j ? json_dumps(j, JSON_INDENT(2)) : NULL;
  st = text ? tn_ab_write(a->out, "result.json", text, strlen(text), err)
            : tn_fail(err, TN_E_NOMEM, "no memory for result.json");
  free(text);
  json_decref(j);
  return st;
}

tn_status ab_keep(const ab_args *a, const tn_ab_exp *e, const tn_ab_results *r, tn_err *err)
{
  tn_status st = a->out ? tn_ab_store(e, a->out, err) : TN_OK;
  if (st == TN_OK && a->out) st = keep_inputs(a, e, err);
  return st == TN_OK ? keep_reports(a, e, r, err) : st;
}

int ab_replay(const ab_args *a)
{
  tn_ab_exp *e = tn_zalloc(1, sizeof *e);
  tn_ab_results *r = tn_zalloc(1, sizeof *r);
  tn_err err = tn_err_init();
  tn_status st = e && r ? TN_OK : tn_fail(&err, TN_E_NOMEM, "no memory for the experiment");
  if (e) tn_ab_exp_init(e);
  if (st == TN_OK) st = tn_ab_load(e, a->replay, &err);
  if (st == TN_OK) st = tn_ab_analyse(e, r, &err);
  if (st == TN_OK) {
    tn_ab_pareto(e, r);
    st = keep_reports(a, e, r, &err);
  }
  int code = st == TN_OK ? ab_print(a, e, r) : tn_cli_fail(&a->cli, &err);
  if (e) tn_ab_exp_free(e);
  free(e);
  free(r);
  return code;
}
