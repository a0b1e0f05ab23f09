/* diff: see diff.h. */
#include "measure/diff.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void tn_diff_init(tn_diff *d, int64_t n_tokens, bool keep_both)
{
  *d = (tn_diff){.n_tokens = n_tokens, .keep_both = keep_both, .err = tn_err_init()};
}

static void record_free(tn_diff_record *r)
{
  if (!r) return;
  for (int i = 0; i < 2; i++) {
    free(r->x[i]);
    free(r->has[i]);
  }
  free(r->name);
  free(r);
}

void tn_diff_release(tn_diff *d)
{
  for (size_t i = 0; i < d->n; i++) record_free(d->at[i]);
  free(d->at);
  *d = (tn_diff){0};
}

/* The record of that name. Records come in the program's order, so the search goes on from the last one found. */
static tn_diff_record *find(tn_diff *d, const char *name)
{
  for (size_t i = 0; i < d->n; i++) {
    size_t at = (d->cursor + i) % d->n;
    if (strcmp(d->at[at]->name, name) != 0) continue;
    d->cursor = at + 1;
    return d->at[at];
  }
  return NULL;
}

static bool make_side(const tn_diff *d, tn_diff_record *r, int side)
{
  if (!r->x[side]) r->x[side] = tn_zalloc((size_t)d->n_tokens * (size_t)r->cols, sizeof(float));
  if (!r->has[side]) r->has[side] = tn_zalloc((size_t)d->n_tokens, 1);
  return r->x[side] && r->has[side];
}

static tn_diff_record *add(tn_diff *d, const tn_traced *t)
{
  if (d->n == d->cap) {
    size_t cap = d->cap ? 2 * d->cap : 256;
    tn_diff_record **at = realloc(d->at, cap * sizeof *at);
    if (!at) return NULL;
    d->at = at;
    d->cap = cap;
  }
  tn_diff_record *r = tn_zalloc(1, sizeof *r);
  if (!r) return NULL;
  *r = (tn_diff_record){
      .name = tn_strdup(t->op->name), .layer = t->op->layer, .kind = t->op->kind, .cols = t->cols, .row = -1};
  if (!r->name || !make_side(d, r, 0)) {
    record_free(r);
    return NULL;
  }
  d->bytes += (uint64_t)d->n_tokens * (uint64_t)t->cols * sizeof(float);
  return d->at[d->n++] = r;
}

static void keep(tn_diff_record *r, int side, const tn_traced *t, uint32_t i)
{
  const float *from = t->x + (int64_t)i * t->cols;
  memcpy(r->x[side] + t->pos[i] * r->cols + t->col0, from + t->col0, (size_t)t->n_cols * sizeof *from);
  r->has[side][t->pos[i]] = 1;
}

static int32_t bits_of(float x)
{
  int32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

/* Row i of t against the first run's. */
static void compare(tn_diff_record *r, const tn_traced *t, uint32_t i)
{
  const float *b = t->x + (int64_t)i * t->cols, *a = r->x[0] + t->pos[i] * r->cols;
  bool differs = false;
  if (!r->has[0][t->pos[i]]) return;
  r->n_rows++;
  for (int64_t c = t->col0; c < t->col0 + t->n_cols; c++) {
    if (bits_of(a[c]) == bits_of(b[c])) continue;
    double apart = fabs((double)a[c] - (double)b[c]);
    if (!(apart <= r->largest)) r->largest = apart;
    if (!differs && (r->row < 0 || t->pos[i] < r->row)) r->row = t->pos[i], r->col = c, r->a = a[c], r->b = b[c];
    differs = true;
  }
  r->n_differ += differs;
}

static tn_status no_memory(tn_diff *d)
{
  return tn_fail(&d->err, TN_E_NOMEM, "no memory to keep the records of %lld tokens", (long long)d->n_tokens);
}

tn_status tn_diff_trace(void *ctx, const tn_traced *t)
{
  tn_diff *d = ctx;
  if (!d->on) return TN_OK;
  tn_diff_record *r = find(d, t->op->name);
  if (!r && d->second) return d->n_unmatched++, TN_OK;
  if (!r && d->bytes > TN_DIFF_MOST_BYTES)
    return tn_fail(&d->err, TN_E_NEVER, "the records of %lld tokens take more than %llu GiB: give a shorter prompt",
                   (long long)d->n_tokens, (unsigned long long)(TN_DIFF_MOST_BYTES >> 30));
  if (!r && !(r = add(d, t))) return no_memory(d);
  if (r->cols != t->cols) return d->n_unmatched++, TN_OK;
  bool kept = !d->second || d->keep_both;
  if (kept && !make_side(d, r, d->second)) return no_memory(d);
  for (uint32_t i = 0; i < t->n_rows; i++) {
    if (t->pos[i] < 0 || t->pos[i] >= d->n_tokens) continue;
    if (kept) keep(r, d->second, t, i);
    if (d->second) compare(r, t, i);
  }
  return TN_OK;
}

const tn_diff_record *tn_diff_first(const tn_diff *d)
{
  const tn_diff_record *first = NULL;
  for (size_t i = 0; i < d->n; i++)
    if (d->at[i]->row >= 0 && (!first || d->at[i]->row < first->row)) first = d->at[i];
  return first;
}

/* Floats in order as integers in order. */
static int64_t ordered(float x)
{
  int32_t bits = bits_of(x);
  return bits < 0 ? (int64_t)INT32_MIN - bits : bits;
}

uint32_t tn_diff_ulps(float a, float b)
{
  if (isnan(a) || isnan(b)) return UINT32_MAX;
  int64_t apart = ordered(a) - ordered(b);
  return (uint32_t)(apart < 0 ? -apart : apart);
}

const char *tn_diff_kind(uint32_t kind)
{
  static const char *const names[] = {"",     "EMBED",    "NORM",       "LINEAR",    "SEGSUM", "ADD",   "GLU",
                                      "ROPE", "KV_WRITE", "ATTEND",     "STATE_MIX", "PICK",   "SCALE", "SOFTCAP",
                                      "TAP",  "OBSERVE",  "COLLECTIVE", "MERGE",     "EXT"};
  return kind < TN_ARRAY_LEN(names) ? names[kind] : "";
}

tn_status tn_diff_npy(const tn_diff *d, const tn_diff_record *r, int side, const char *path, tn_err *err)
{
  char head[129] = "", text[118];
  long long rows = 0;
  for (int64_t i = 0; r->has[side] && i < d->n_tokens; i++) rows += r->has[side][i];
  snprintf(text, sizeof text, "{'descr': '<f4', 'fortran_order': False, 'shape': (%lld, %lld), }", rows,
           (long long)r->cols);
  /* magic, version 1.0, length of the dictionary, which ends with a newline at byte 128 */
  snprintf(head, sizeof head, "%cNUMPY%c%c%c%c%-117s\n", 0x93, 1, 1, 118, 1, text);
  head[7] = 0;
  head[9] = 0;
  FILE *f = fopen(path, "we");
  bool good = f && fwrite(head, 1, 128, f) == 128;
  for (int64_t i = 0; good && r->has[side] && i < d->n_tokens; i++)
    if (r->has[side][i]) good = fwrite(r->x[side] + i * r->cols, sizeof(float), (size_t)r->cols, f) == (size_t)r->cols;
  if (f) good = fclose(f) == 0 && good;
  return good ? TN_OK : tn_fail(err, TN_E_IO, "%s: cannot be written: %s", path, strerror(errno));
}
