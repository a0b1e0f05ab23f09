/* base_write: laws of a reference to a file. See base_file.h. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base_file_int.h"
#include "engine/sample.h"

struct tn_base_writer {
  FILE *f;
  char *path, *part;
  tn_base_info info;
  uint64_t left; /* rows to come */
  uint8_t *row;  /* [tn_base_row_bytes] */
  int32_t *top;  /* [k] */
  bool failed;
};

static tn_status cannot(tn_base_writer *w, tn_err *err)
{
  w->failed = true;
  return tn_fail(err, TN_E_IO, "%s: cannot be written: %s", w->part, strerror(errno));
}

static tn_status check(const char *path, const tn_base_info *i, tn_err *err)
{
  if (i->k > i->n_vocab || i->k > TN_BASE_MAX_K)
    return tn_fail(err, TN_E_ARG, "%s: a compact base of %u tokens a row: at most %u, and the vocabulary has %u", path,
                   i->k, (uint32_t)TN_BASE_MAX_K, i->n_vocab);
  if (i->k == 0 && i->n_prompt != i->n_ctx / 2)
    return tn_fail(err, TN_E_ARG,
                   "%s: llama-perplexity's base holds the second half of each chunk: %u tokens before the scored ones "
                   "of %u cannot be said in it; a compact base can",
                   path, i->n_prompt, i->n_ctx);
  return TN_OK;
}

static tn_status write_head(tn_base_writer *w, tn_err *err)
{
  const tn_base_info *i = &w->info;
  uint32_t llama[3] = {i->n_ctx, i->n_vocab, i->n_chunks};
  uint32_t compact[6] = {i->k, i->n_ctx, i->n_prompt, i->n_vocab, i->n_chunks, 0};
  size_t n = (size_t)i->n_ctx * i->n_chunks;
  bool ok = fwrite(i->k ? TN_BASE_COMPACT : TN_BASE_LLAMA, 1, TN_BASE_MAGIC, w->f) == TN_BASE_MAGIC;
  ok = ok && (i->k ? fwrite(compact, sizeof compact, 1, w->f) : fwrite(llama, sizeof llama, 1, w->f)) == 1;
  ok = ok && fwrite(i->tokens, sizeof *i->tokens, n, w->f) == n;
  return ok ? TN_OK : cannot(w, err);
}

tn_status tn_base_create(const char *path, const tn_base_info *info, tn_base_writer **out, tn_err *err)
{
  *out = NULL;
  tn_status st = check(path, info, err);
  if (st != TN_OK) return st;
  tn_base_writer *w = tn_zalloc(1, sizeof *w);
  if (!w) return tn_fail(err, TN_E_NOMEM, "%s: no memory to write it", path);
  w->info = *info;
  w->left = tn_base_rows(info) * info->n_chunks;
  w->path = tn_strdup(path);
  w->part = tn_asprintf("%s.part", path);
  w->row = tn_zalloc(1, tn_base_row_bytes(info));
  w->top = tn_zalloc(info->k ? info->k : 1, sizeof *w->top);
  if (!w->path || !w->part || !w->row || !w->top)
    st = tn_fail(err, TN_E_NOMEM, "%s: no memory to write it", path);
  else if (!(w->f = fopen(w->part, "wbe")))
    st = cannot(w, err);
  else
    st = write_head(w, err);
  if (st == TN_OK) {
    *out = w;
    return TN_OK;
  }
  w->failed = true;
  (void)tn_base_finish(w, NULL);
  return st;
}

/* llama-perplexity's row: f32 throughout, the values to the nearest. */
static void fill_llama(tn_base_writer *w, const float *row)
{
  uint32_t n = w->info.n_vocab;
  float most = row[0], least = row[0];
  for (uint32_t i = 1; i < n; i++) {
    if (row[i] > most) most = row[i];
    if (row[i] < least) least = row[i];
  }
  if (least < most - (float)TN_BASE_REACH) least = most - (float)TN_BASE_REACH;
  float scale = (most - least) / 65535.0f, inverse = scale > 0 ? 1 / scale : 0;
  float least_lp = (float)((double)least - tn_log_sum_exp(row, n));
  memcpy(w->row, &scale, 4);
  memcpy(w->row + 4, &least_lp, 4);
  for (uint32_t i = 0; i < n; i++) {
    uint16_t v = row[i] > least ? (uint16_t)lrintf(inverse * (row[i] - least)) : 0;
    memcpy(w->row + 8 + 2 * (size_t)i, &v, 2);
  }
}

static void fill_compact(tn_base_writer *w, const float *row, int32_t next)
{
  uint32_t n = w->info.n_vocab, k = w->info.k;
  double all = 0, top = 0;
  tn_top_n(row, n, k, w->top);
  float most = row[w->top[0]];
  for (uint32_t i = 0; i < n; i++) all += exp((double)(row[i] - most));
  double lse = (double)most + log(all);
  for (uint32_t i = 0; i < k; i++) {
    uint32_t id = (uint32_t)w->top[i];
    float lp = (float)((double)row[id] - lse);
    top += exp((double)(row[id] - most));
    memcpy(w->row + 8 + 4 * (size_t)i, &id, 4);
    memcpy(w->row + 8 + 4 * ((size_t)k + i), &lp, 4);
  }
  double rest = (all - top) / all;
  float head[2] = {(float)((double)row[next] - lse), (float)(k == n || rest < 0 ? 0 : rest)};
  memcpy(w->row, head, sizeof head);
}

tn_status tn_base_put(tn_base_writer *w, const float *row, int32_t next, tn_err *err)
{
  size_t bytes = tn_base_row_bytes(&w->info);
  if (w->left == 0) return tn_fail(err, TN_E_STATE, "%s: more rows come than its header says", w->part);
  if (w->info.k)
    fill_compact(w, row, next);
  else
    fill_llama(w, row);
  if (fwrite(w->row, 1, bytes, w->f) != bytes) return cannot(w, err);
  w->left--;
  return TN_OK;
}

tn_status tn_base_finish(tn_base_writer *w, tn_err *err)
{
  tn_status st = TN_OK;
  if (!w) return TN_OK;
  if (w->f && fclose(w->f) != 0 && !w->failed) st = cannot(w, err);
  if (st == TN_OK && !w->failed && w->left > 0) {
    w->failed = true;
    st = tn_fail(err, TN_E_STATE, "%s: not written, since not all chunks were done", w->path);
  }
  if (!w->failed && rename(w->part, w->path) != 0) st = cannot(w, err);
  if (w->failed && w->f) (void)unlink(w->part);
  free(w->path);
  free(w->part);
  free(w->row);
  free(w->top);
  free(w);
  return st;
}
