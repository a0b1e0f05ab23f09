/* gguf_names: look-up of metadata keys and tensor names. */
#include "gguf_int.h"

#include <stdlib.h>
#include <string.h>

static int compare(tn_str a, tn_str b)
{
  size_t n = a.n < b.n ? a.n : b.n;
  int d = n ? memcmp(a.p, b.p, n) : 0;
  if (d) return d;
  return (a.n > b.n) - (a.n < b.n);
}

/* By name, then by position, so that of two equal names the later one is the duplicate. */
static int by_name(const void *x, const void *y)
{
  const struct tn_gguf_name *a = x, *b = y;
  int d = compare(a->name, b->name);
  return d ? d : (a->i > b->i) - (a->i < b->i);
}

tn_status tn_gguf_names_build(tn_gguf_names *x, size_t n, tn_str (*get)(const void *ctx, uint64_t i), const void *ctx,
                              uint64_t *dup)
{
  *dup = UINT64_MAX;
  x->e = tn_zalloc(n, sizeof *x->e);
  if (!x->e) return TN_E_NOMEM;
  x->n = n;
  for (size_t i = 0; i < n; i++) x->e[i] = (struct tn_gguf_name){get(ctx, i), i};
  qsort(x->e, n, sizeof *x->e, by_name);
  for (size_t i = 1; i < n; i++) {
    if (compare(x->e[i - 1].name, x->e[i].name) == 0 && x->e[i].i < *dup) *dup = x->e[i].i;
  }
  return TN_OK;
}

void tn_gguf_names_clear(tn_gguf_names *x)
{
  free(x->e);
  *x = (tn_gguf_names){0};
}

uint64_t tn_gguf_names_find(const tn_gguf_names *x, const char *name)
{
  tn_str key = {name, strlen(name)};
  size_t lo = 0, hi = x->n;
  while (lo < hi) {
    size_t mid = lo + (hi - lo) / 2;
    int d = compare(key, x->e[mid].name);
    if (d == 0) return x->e[mid].i;
    if (d < 0)
      hi = mid;
    else
      lo = mid + 1;
  }
  return UINT64_MAX;
}
