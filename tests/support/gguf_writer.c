/* gguf_writer: see gguf_writer.h. */
#include "gguf_writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGN = 32, T_U32 = 4, T_I32 = 5, T_F32 = 6, T_BOOL = 7, T_STR = 8, T_ARR = 9, T_U64 = 10 };

typedef struct bytes {
  uint8_t *p;
  size_t n;
} bytes;

typedef struct item { /* a key and its encoded type and value, or a tensor and its data */
  char *name;
  bytes value;
  uint32_t dtype, n_dims;
  int64_t ne[4];
} item;

typedef struct items {
  item *p;
  size_t n;
} items;

struct gguf_writer {
  items kv, tensors;
};

static void *must(void *p)
{
  if (p) return p;
  fprintf(stderr, "gguf_writer: no memory\n");
  exit(1);
}

static void put(bytes *b, const void *p, size_t n)
{
  b->p = must(realloc(b->p, b->n + n + 1));
  if (p)
    memcpy(b->p + b->n, p, n);
  else
    memset(b->p + b->n, 0, n);
  b->n += n;
}

static void put_u32(bytes *b, uint32_t v) { put(b, &v, sizeof v); }
static void put_u64(bytes *b, uint64_t v) { put(b, &v, sizeof v); }

static void put_str(bytes *b, const char *s)
{
  put_u64(b, strlen(s));
  put(b, s, strlen(s));
}

static void pad(bytes *b) { put(b, NULL, (ALIGN - b->n % ALIGN) % ALIGN); }

static size_t find(const items *l, const char *name)
{
  size_t i = 0;
  while (i < l->n && strcmp(l->p[i].name, name) != 0) i++;
  return i;
}

/* The item of that name, emptied, or a new one at the end. */
static item *fresh(items *l, const char *name)
{
  size_t i = find(l, name);
  if (i == l->n) {
    l->p = must(realloc(l->p, (l->n + 1) * sizeof *l->p));
    l->p[l->n++] = (item){.name = must(strdup(name))};
  }
  free(l->p[i].value.p);
  l->p[i].value = (bytes){0};
  return &l->p[i];
}

static void drop(items *l, const char *name)
{
  size_t i = find(l, name);
  if (i == l->n) return;
  free(l->p[i].name);
  free(l->p[i].value.p);
  memmove(&l->p[i], &l->p[i + 1], (l->n - i - 1) * sizeof *l->p);
  l->n--;
}

static void items_free(items *l)
{
  while (l->n) drop(l, l->p[0].name);
  free(l->p);
}

gguf_writer *gguf_writer_new(void) { return must(calloc(1, sizeof(gguf_writer))); }

void gguf_writer_free(gguf_writer *w)
{
  if (!w) return;
  items_free(&w->kv);
  items_free(&w->tensors);
  free(w);
}

static void put_kv(gguf_writer *w, const char *key, uint32_t type, const void *v, size_t n)
{
  item *i = fresh(&w->kv, key);
  put_u32(&i->value, type);
  put(&i->value, v, n);
}

void gguf_put_u32(gguf_writer *w, const char *key, uint32_t v) { put_kv(w, key, T_U32, &v, sizeof v); }
void gguf_put_u64(gguf_writer *w, const char *key, uint64_t v) { put_kv(w, key, T_U64, &v, sizeof v); }
void gguf_put_i32(gguf_writer *w, const char *key, int32_t v) { put_kv(w, key, T_I32, &v, sizeof v); }
void gguf_put_f32(gguf_writer *w, const char *key, float v) { put_kv(w, key, T_F32, &v, sizeof v); }

void gguf_put_bool(gguf_writer *w, const char *key, bool v)
{
  uint8_t b = v;
  put_kv(w, key, T_BOOL, &b, sizeof b);
}

void gguf_put_str(gguf_writer *w, const char *key, const char *v)
{
  put_kv(w, key, T_STR, NULL, 0);
  put_str(&w->kv.p[find(&w->kv, key)].value, v);
}

static void put_array(gguf_writer *w, const char *key, uint32_t type, const void *v, uint64_t n, size_t size)
{
  item *i = fresh(&w->kv, key);
  put_u32(&i->value, T_ARR);
  put_u32(&i->value, type);
  put_u64(&i->value, n);
  put(&i->value, v, (size_t)n * size);
}

void gguf_put_bools(gguf_writer *w, const char *key, const bool *v, uint64_t n) { put_array(w, key, T_BOOL, v, n, 1); }

void gguf_put_u32s(gguf_writer *w, const char *key, const uint32_t *v, uint64_t n)
{
  put_array(w, key, T_U32, v, n, sizeof *v);
}

void gguf_put_i32s(gguf_writer *w, const char *key, const int32_t *v, uint64_t n)
{
  put_array(w, key, T_I32, v, n, sizeof *v);
}

void gguf_put_f32s(gguf_writer *w, const char *key, const float *v, uint64_t n)
{
  put_array(w, key, T_F32, v, n, sizeof *v);
}

void gguf_put_strs(gguf_writer *w, const char *key, const char *const *v, uint64_t n)
{
  put_array(w, key, T_STR, NULL, n, 0);
  for (uint64_t i = 0; i < n; i++) put_str(&w->kv.p[find(&w->kv, key)].value, v[i]);
}

void gguf_drop(gguf_writer *w, const char *key) { drop(&w->kv, key); }

void gguf_put_tensor(gguf_writer *w, const char *name, uint32_t dtype, uint32_t n_dims, const int64_t *ne,
                     const void *data, size_t n)
{
  item *i = fresh(&w->tensors, name);
  i->dtype = dtype;
  i->n_dims = n_dims;
  for (uint32_t d = 0; d < 4; d++) i->ne[d] = d < n_dims ? ne[d] : 1;
  put(&i->value, data, n);
}

void gguf_drop_tensor(gguf_writer *w, const char *name) { drop(&w->tensors, name); }

void *gguf_writer_bytes(const gguf_writer *w, size_t *n)
{
  bytes b = {0}, data = {0};
  put(&b, "GGUF", 4);
  put_u32(&b, 3);
  put_u64(&b, w->tensors.n);
  put_u64(&b, w->kv.n);
  for (size_t i = 0; i < w->kv.n; i++) {
    put_str(&b, w->kv.p[i].name);
    put(&b, w->kv.p[i].value.p, w->kv.p[i].value.n);
  }
  for (size_t i = 0; i < w->tensors.n; i++) {
    const item *t = &w->tensors.p[i];
    put_str(&b, t->name);
    put_u32(&b, t->n_dims);
    put(&b, t->ne, t->n_dims * sizeof t->ne[0]);
    put_u32(&b, t->dtype);
    put_u64(&b, data.n);
    put(&data, t->value.p, t->value.n);
    pad(&data);
  }
  pad(&b);
  put(&b, data.p, data.n);
  free(data.p);
  *n = b.n;
  return b.p;
}
