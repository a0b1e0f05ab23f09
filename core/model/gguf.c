/* gguf: opens a model, one file or a split, and answers for all of its parts at once. */
#include "gguf_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../sha256.h"

enum { SPLIT_SUFFIX = 20, SAMPLE_BYTES = 64 }; /* SPLIT_SUFFIX: strlen("-00001-of-00003.gguf") */

/* True when path ends like a part of a split: *no (from 1) of *count. */
static bool split_name(const char *path, unsigned *no, unsigned *count)
{
  size_t n = strlen(path);
  if (n < SPLIT_SUFFIX) return false;
  const char *s = path + n - SPLIT_SUFFIX;
  for (int i = 0; i < SPLIT_SUFFIX; i++) {
    char want = "-00000-of-00000.gguf"[i];
    if (want == '0' ? s[i] < '0' || s[i] > '9' : s[i] != want) return false;
  }
  *no = (unsigned)strtoul(s + 1, NULL, 10);
  *count = (unsigned)strtoul(s + 10, NULL, 10);
  return true;
}

/* split.count and split.no of a part, checked against what its name or its place says. no counts from 0. */
static tn_status check_split(const tn_gguf_part *part, uint64_t no, uint64_t count, tn_err *err)
{
  uint64_t has_no, has_count;
  if (!tn_gguf_kv_u64(tn_gguf_kv_find(part, "split.count"), &has_count) ||
      !tn_gguf_kv_u64(tn_gguf_kv_find(part, "split.no"), &has_no)) {
    return tn_gguf_fail(part, err, TN_E_ARG, "split.no or split.count is missing or no count, the part is %llu of %llu",
                        (unsigned long long)no + 1, (unsigned long long)count);
  }
  if (has_no != no || has_count != count) {
    return tn_gguf_fail(part, err, TN_E_ARG,
                        "split.no %llu (from 0) of split.count %llu, but the name says part %llu (from 1) of %llu",
                        (unsigned long long)has_no, (unsigned long long)has_count, (unsigned long long)no + 1,
                        (unsigned long long)count);
  }
  return TN_OK;
}

/* Opens the parts of the split that first belongs to, other than first itself, which is at g->parts[no]. */
static tn_status open_sisters(tn_gguf *g, const char *path, size_t no, tn_err *err)
{
  tn_status st = check_split(&g->parts[no], no, g->n_parts, err);
  char *sister = tn_strdup(path);
  if (st == TN_OK && !sister) st = tn_fail(err, TN_E_NOMEM, "%s: no memory", path);
  for (size_t i = 0; st == TN_OK && i < g->n_parts; i++) {
    if (i == no) continue;
    size_t head = strlen(path) - SPLIT_SUFFIX;
    snprintf(sister + head, SPLIT_SUFFIX + 1, "-%05u-of-%05u.gguf", (unsigned)(i + 1) % 100000u,
             (unsigned)g->n_parts % 100000u);
    st = tn_gguf_part_open(&g->parts[i], sister, err);
    if (st == TN_OK) st = check_split(&g->parts[i], i, g->n_parts, err);
  }
  free(sister);
  return st;
}

/* Makes room for the parts of a split and moves first to its place. Consumes first. */
static tn_status take_parts(tn_gguf *g, tn_gguf_part *first, const char *path, tn_err *err)
{
  unsigned no = 1, count = 1;
  uint64_t has_count = 1;
  tn_gguf_kv_u64(tn_gguf_kv_find(first, "split.count"), &has_count);
  tn_status st = TN_OK;
  if (has_count > 1 && (!path || !split_name(path, &no, &count) || no < 1 || no > count)) {
    st = tn_gguf_fail(
        first, err, TN_E_ARG,
        "split.count is %llu, but the name does not end in -0000N-of-0000M.gguf: the other parts cannot be found",
        (unsigned long long)has_count);
  }
  if (has_count <= 1) no = count = 1;
  if (st == TN_OK) g->parts = tn_zalloc(count, sizeof *g->parts);
  if (!g->parts) {
    if (st == TN_OK) st = tn_gguf_fail(first, err, TN_E_NOMEM, "no memory for %u parts", count);
    tn_gguf_part_clear(first);
    return st;
  }
  g->n_parts = count;
  g->parts[no - 1] = *first;
  return count > 1 || has_count > 1 ? open_sisters(g, path, no - 1, err) : TN_OK;
}

static tn_str name_at(const void *ctx, uint64_t i) { return ((const tn_gguf_tensor *)ctx)[i].name; }

/* One tensor list over all parts, and its index. */
static tn_status join_tensors(tn_gguf *g, tn_err *err)
{
  const tn_gguf_part *first = &g->parts[0];
  uint64_t total = 0, want, dup;
  for (size_t i = 0; i < g->n_parts; i++) total += g->parts[i].n_tensors;
  if (tn_gguf_kv_u64(tn_gguf_kv_find(first, "split.tensors.count"), &want) && want != total) {
    return tn_gguf_fail(first, err, TN_E_ARG, "split.tensors.count is %llu, but the %zu parts have %llu tensors",
                        (unsigned long long)want, g->n_parts, (unsigned long long)total);
  }
  g->tensors = tn_zalloc((size_t)total, sizeof *g->tensors);
  if (!g->tensors) return tn_gguf_fail(first, err, TN_E_NOMEM, "no memory for %llu tensors", (unsigned long long)total);
  for (size_t i = 0; i < g->n_parts; i++) {
    tn_gguf_part *p = &g->parts[i];
    if (p->n_tensors) memcpy(g->tensors + g->n_tensors, p->tensors, (size_t)p->n_tensors * sizeof *p->tensors);
    g->n_tensors += p->n_tensors;
    free(p->tensors);
    p->tensors = NULL;
  }
  tn_status st = tn_gguf_names_build(&g->names, (size_t)total, name_at, g->tensors, &dup);
  if (st != TN_OK) return tn_gguf_fail(first, err, st, "no memory for the tensor index");
  char name[72];
  if (dup == UINT64_MAX) return TN_OK;
  return tn_gguf_fail(first, err, TN_E_ARG, "tensor '%s' is there twice", tn_gguf_show(g->tensors[dup].name, name));
}

/* Builds the model around its first part, which it consumes. path is NULL for a memory image. */
static tn_status finish_open(tn_gguf_part *first, const char *path, tn_gguf **out, tn_err *err)
{
  tn_status st;
  tn_gguf *g = tn_zalloc(1, sizeof *g);
  if (g) g->path = tn_strdup(first->name);
  if (!g || !g->path) {
    st = tn_gguf_fail(first, err, TN_E_NOMEM, "no memory");
    tn_gguf_part_clear(first);
  } else {
    st = take_parts(g, first, path, err);
    if (st == TN_OK) st = join_tensors(g, err);
  }
  if (st == TN_OK)
    *out = g;
  else
    tn_gguf_close(g);
  return st;
}

tn_status tn_gguf_open(const char *path, tn_gguf **out, tn_err *err)
{
  *out = NULL;
  tn_gguf_part first;
  tn_status st = tn_gguf_part_open(&first, path, err);
  return st == TN_OK ? finish_open(&first, path, out, err) : st;
}

tn_status tn_gguf_open_mem(const void *bytes, size_t n, const char *name, tn_gguf **out, tn_err *err)
{
  *out = NULL;
  tn_gguf_part first = {.name = tn_strdup(name), .base = bytes, .size = n};
  if (!first.name) return tn_fail(err, TN_E_NOMEM, "%s: no memory", name);
  tn_status st = tn_gguf_part_parse(&first, err);
  if (st == TN_OK) return finish_open(&first, NULL, out, err);
  tn_gguf_part_clear(&first);
  return st;
}

void tn_gguf_close(tn_gguf *g)
{
  if (!g) return;
  for (size_t i = 0; i < g->n_parts; i++) tn_gguf_part_clear(&g->parts[i]);
  free(g->parts);
  free(g->tensors);
  tn_gguf_names_clear(&g->names);
  free(g->path);
  free(g);
}

const char *tn_gguf_path(const tn_gguf *g) { return g->path; }

uint64_t tn_gguf_n_tensors(const tn_gguf *g) { return g->n_tensors; }

const tn_gguf_tensor *tn_gguf_tensor_at(const tn_gguf *g, uint64_t i)
{
  return i < g->n_tensors ? &g->tensors[i] : NULL;
}

const tn_gguf_tensor *tn_gguf_tensor_find(const tn_gguf *g, const char *name)
{
  uint64_t i = tn_gguf_names_find(&g->names, name);
  return i == UINT64_MAX ? NULL : &g->tensors[i];
}

void tn_gguf_identity(const tn_gguf *g, uint8_t out[32])
{
  tn_sha256 h;
  tn_sha256_init(&h);
  for (size_t i = 0; i < g->n_parts; i++) tn_sha256_update(&h, g->parts[i].base, g->parts[i].meta_bytes);
  for (uint64_t i = 0; i < g->n_tensors; i++) {
    const tn_gguf_tensor *t = &g->tensors[i];
    size_t bytes = (size_t)t->bytes, n = bytes < SAMPLE_BYTES ? bytes : SAMPLE_BYTES;
    tn_sha256_update(&h, t->data, n);
    tn_sha256_update(&h, t->data + (bytes - n) / 2, n);
    tn_sha256_update(&h, t->data + bytes - n, n);
  }
  tn_sha256_final(&h, out);
}

bool tn_gguf_files(const tn_gguf *g, uint8_t out[32])
{
  tn_sha256 h;
  tn_sha256_init(&h);
  for (size_t i = 0; i < g->n_parts; i++) {
    if (!g->parts[i].mapped) return false;
    tn_sha256_update(&h, g->parts[i].file, sizeof g->parts[i].file);
  }
  tn_sha256_final(&h, out);
  return true;
}

void tn_gguf_forget(const tn_gguf *g, const uint8_t *p, uint64_t bytes)
{
  const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = ((uintptr_t)p + page - 1) / page * page,
                  to = ((uintptr_t)p + bytes) / page * page;
  for (size_t i = 0; i < g->n_parts && from < to; i++) {
    const tn_gguf_part *in = &g->parts[i];
    if (in->mapped && p >= in->base && p < in->base + in->size)
      (void)madvise((void *)from, to - from, MADV_DONTNEED); /* of a read-only mapping: nothing is lost */
  }
}

tn_status tn_gguf_sha256(const tn_gguf *g, tn_progress_fn progress, void *ctx, uint8_t out[32], tn_err *err)
{
  const size_t step = (size_t)1 << 22;
  double done = 0, total = 0;
  for (size_t i = 0; i < g->n_parts; i++) total += (double)g->parts[i].size;
  tn_sha256 h;
  tn_sha256_init(&h);
  for (size_t i = 0; i < g->n_parts; i++) {
    const tn_gguf_part *p = &g->parts[i];
    for (size_t at = 0; at < p->size; at += step) {
      size_t n = p->size - at < step ? p->size - at : step;
      tn_sha256_update(&h, p->base + at, n);
      done += (double)n;
      if (progress && !progress(ctx, done / total)) return tn_gguf_fail(p, err, TN_E_STATE, "hashing was cancelled");
    }
  }
  tn_sha256_final(&h, out);
  return TN_OK;
}
