/* journal: see journal.h. */
#include "journal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/config.h"

#define MOST_BYTES ((size_t)1 << 30)

struct tn_journal {
  FILE *f;
  char *path;
  json_t *pieces; /* array */
};

void tn_journal_close(tn_journal *j)
{
  if (!j) return;
  if (j->f) fclose(j->f);
  json_decref(j->pieces);
  free(j->path);
  free(j);
}

const json_t *tn_journal_at(const tn_journal *j, size_t i) { return json_array_get(j->pieces, i); }

tn_status tn_journal_add(tn_journal *j, json_t *piece, tn_err *err)
{
  char *text = piece ? json_dumps(piece, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
  json_decref(piece);
  if (!text) return tn_fail(err, TN_E_NOMEM, "%s: no memory for a line of it", j->path);
  bool ok = fputs(text, j->f) >= 0 && fputc('\n', j->f) != EOF && fflush(j->f) == 0;
  free(text);
  return ok ? TN_OK : tn_fail(err, TN_E_IO, "%s: cannot be written: %s", j->path, strerror(errno));
}

/* Both lines say what is measured: are they equal? */
static tn_status check_about(const tn_journal *j, json_t *file, json_t *mine, tn_err *err)
{
  const char *key;
  json_t *value;
  json_object_foreach(mine, key, value)
  {
    json_t *other = json_object_get(file, key);
    if (other && json_equal(other, value)) continue;
    char *a = other ? json_dumps(other, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    char *b = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    tn_status st = tn_fail(err, TN_E_ARG,
                           "%s: holds the state of another measurement: %s is %s there and %s here; give another file",
                           j->path, key, a ? a : "missing", b ? b : "?");
    free(a);
    free(b);
    return st;
  }
  return TN_OK;
}

/* Whole lines that are there. The end of the last one into *end. */
static tn_status read_lines(tn_journal *j, const char *text, size_t n_text, json_t *about, size_t *end, tn_err *err)
{
  const char *p = text, *nl;
  tn_status st = TN_OK;
  for (size_t n = 1; st == TN_OK && (nl = memchr(p, '\n', n_text - (size_t)(p - text))); p = nl + 1, n++) {
    json_t *piece = json_loadb(p, (size_t)(nl - p), 0, NULL);
    if (!piece)
      st = tn_fail(err, TN_E_IO, "%s:%zu: is no line of JSON: the file is no state of a measurement", j->path, n);
    else if (n > 1 && json_array_append(j->pieces, piece) != 0)
      st = tn_fail(err, TN_E_NOMEM, "%s: no memory to read it", j->path);
    else if (n == 1)
      st = check_about(j, piece, about, err);
    json_decref(piece);
    if (st == TN_OK) *end = (size_t)(nl + 1 - text);
  }
  return st;
}

tn_status tn_journal_open(const char *path, json_t *about, tn_journal **out, tn_err *err)
{
  *out = NULL;
  tn_status st = TN_OK;
  char *text = NULL;
  size_t n = 0, end = 0;
  tn_journal *j = tn_zalloc(1, sizeof *j);
  if (j) j->path = tn_strdup(path);
  if (j) j->pieces = json_array();
  if (!j || !j->path || !j->pieces || !about)
    st = tn_fail(err, TN_E_NOMEM, "%s: no memory for it", path);
  else if (!(j->f = fopen(path, "a+e")))
    st = tn_fail(err, TN_E_IO, "%s: cannot be opened: %s", path, strerror(errno));
  if (st == TN_OK) st = tn_file_read(path, MOST_BYTES, &text, &n, err);
  if (st == TN_OK) st = read_lines(j, text, n, about, &end, err);
  free(text);
  if (st == TN_OK && ftruncate(fileno(j->f), (off_t)end) != 0)
    st = tn_fail(err, TN_E_IO, "%s: cannot be written: %s", path, strerror(errno));
  if (st == TN_OK && end == 0) st = tn_journal_add(j, json_incref(about), err);
  json_decref(about);
  if (st != TN_OK) {
    tn_journal_close(j);
    return st;
  }
  *out = j;
  return TN_OK;
}
