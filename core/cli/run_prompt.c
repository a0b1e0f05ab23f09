/* run_prompt: what `tenon run` begins with: the text of -p or -f as tokens, behind those that a saved session brings. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/run_int.h"

/* -p, or the bytes of -f, or nothing. *owned is to be freed. */
static tn_status read_text(const run_args *a, tn_str *text, char **owned, tn_err *err)
{
  *owned = NULL;
  if (!a->file) {
    const char *p = a->prompt ? a->prompt : "";
    *text = (tn_str){p, strlen(p)};
    return TN_OK;
  }
  const char *path = strcmp(a->file, "-") == 0 ? "/dev/stdin" : a->file;
  FILE *f = fopen(path, "rb");
  if (!f) return tn_fail(err, TN_E_IO, "-f %s: cannot be opened: %s", a->file, strerror(errno));
  size_t n = 0, cap = 1 << 16, got;
  char *p = malloc(cap);
  while (p && (got = fread(p + n, 1, cap - n, f)) > 0) {
    n += got;
    if (n < cap) continue;
    char *grown = cap < TN_TEXT_MAX ? realloc(p, cap *= 2) : NULL;
    if (!grown) free(p);
    p = grown;
  }
  int unread = ferror(f) ? errno : 0;
  fclose(f);
  if (!p) return tn_fail(err, TN_E_NOMEM, "-f %s: no memory for it", a->file);
  if (unread) {
    free(p);
    return tn_fail(err, TN_E_IO, "-f %s: cannot be read: %s", a->file, strerror(unread));
  }
  *owned = p;
  *text = (tn_str){p, n};
  return TN_OK;
}

/* Room for the saved tokens before those of the text. */
static tn_status put_saved_first(tn_run_prompt *p, tn_err *err)
{
  size_t before = p->saved.n_pending;
  int32_t *all = malloc((before + p->n + 1) * sizeof *all);
  if (!all) return tn_fail(err, TN_E_NOMEM, "no memory for a prompt of %zu tokens", before + p->n);
  if (before) memcpy(all, p->saved.pending, before * sizeof *all);
  if (p->n) memcpy(all + before, p->ids, p->n * sizeof *all);
  free(p->ids);
  p->ids = all;
  p->n += before;
  return TN_OK;
}

tn_status tn_run_prompt_read(const run_args *a, const tn_tokenizer *t, tn_run_prompt *p, tn_err *err)
{
  *p = (tn_run_prompt){0};
  uint32_t special = a->load ? TN_TOKENIZE_PARSE_SPECIAL : TN_TOKENIZE_ADD_SPECIAL | TN_TOKENIZE_PARSE_SPECIAL;
  tn_status st = read_text(a, &p->text, &p->owned, err);
  if (st == TN_OK) st = tn_tokenize(t, p->text.p, p->text.n, special, &p->ids, &p->n, err);
  if (st == TN_OK && a->load) st = tn_run_file_read(a->load, &p->saved, err);
  if (st == TN_OK && a->load) st = put_saved_first(p, err);
  if (st != TN_OK || p->n > 0) return st;
  if (a->load)
    return tn_fail(
        err, TN_E_ARG,
        "--load %s: its answer had come to an end by itself, so there is nothing to go on with: give a prompt "
        "with -p or -f",
        a->load);
  if (a->file) return tn_fail(err, TN_E_ARG, "-f %s: the prompt is empty", a->file);
  return tn_fail(err, TN_E_ARG, "the prompt is empty: give a text with -p or -f");
}

void tn_run_prompt_free(tn_run_prompt *p)
{
  free(p->ids);
  free(p->owned);
  tn_run_file_free(&p->saved);
  *p = (tn_run_prompt){0};
}
