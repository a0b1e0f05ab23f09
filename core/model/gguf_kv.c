/* gguf_kv: reads the metadata section. Each entry is a key, a type word and a value. */
#include "gguf_int.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_KEY = 65535 }; /* the format's own limit, bytes */

size_t tn_gguf_type_size(uint32_t type)
{
  switch (type) {
    case TN_GGUF_U8:
    case TN_GGUF_I8:
    case TN_GGUF_BOOL: return 1;
    case TN_GGUF_U16:
    case TN_GGUF_I16: return 2;
    case TN_GGUF_U32:
    case TN_GGUF_I32:
    case TN_GGUF_F32: return 4;
    case TN_GGUF_U64:
    case TN_GGUF_I64:
    case TN_GGUF_F64: return 8;
    default: return 0;
  }
}

/* n strings from the cursor on, noting where each begins. */
static tn_status read_strings(tn_gguf_cursor *c, tn_gguf_arr *a, const char *what)
{
  uint64_t *index = tn_zalloc((size_t)a->n, sizeof *index);
  if (!index)
    return tn_gguf_fail(c->part, c->err, TN_E_NOMEM, "no memory for the %llu strings of %s", (unsigned long long)a->n,
                        what);
  a->index = index;
  size_t start = c->pos;
  for (uint64_t i = 0; i < a->n; i++) {
    tn_str s;
    index[i] = c->pos - start;
    tn_status st = tn_gguf_take_str(c, what, &s);
    if (st != TN_OK) return st;
  }
  return TN_OK;
}

static tn_status read_array(tn_gguf_cursor *c, tn_gguf_arr *a, const char *what)
{
  tn_status st = tn_gguf_take_u32(c, what, &a->type);
  if (st == TN_OK) st = tn_gguf_take_u64(c, what, &a->n);
  if (st != TN_OK) return st;
  if (a->type == TN_GGUF_ARR) {
    return tn_gguf_fail(c->part, c->err, TN_E_ARG, "%s is an array of arrays, which is not supported", what);
  }
  size_t size = tn_gguf_type_size(a->type), left = c->part->size - c->pos;
  if (size == 0 && a->type != TN_GGUF_STR) {
    return tn_gguf_fail(c->part, c->err, TN_E_ARG, "%s has element type %u, the format has 0 to %d", what, a->type,
                        TN_GGUF_N_TYPES - 1);
  }
  size_t least = size ? size : sizeof(uint64_t); /* bytes that an element takes at the least */
  if (a->n > left / least) {
    return tn_gguf_fail(c->part, c->err, TN_E_IO, "%s has %llu elements, but only %zu bytes follow in the file", what,
                        (unsigned long long)a->n, left);
  }
  a->data = c->part->base + c->pos;
  if (size == 0) return read_strings(c, a, what);
  const uint8_t *p;
  return tn_gguf_take(c, a->n * size, what, &p);
}

static tn_status read_value(tn_gguf_cursor *c, tn_gguf_kv *kv, const char *what)
{
  if (kv->type == TN_GGUF_STR) return tn_gguf_take_str(c, what, &kv->str);
  if (kv->type == TN_GGUF_ARR) return read_array(c, &kv->arr, what);
  size_t size = tn_gguf_type_size(kv->type);
  if (size == 0) {
    return tn_gguf_fail(c->part, c->err, TN_E_ARG, "%s has type %u, the format has 0 to %d", what, kv->type,
                        TN_GGUF_N_TYPES - 1);
  }
  tn_status st = tn_gguf_take(c, size, what, &kv->data);
  if (st == TN_OK && kv->type == TN_GGUF_BOOL && *kv->data > 1) {
    return tn_gguf_fail(c->part, c->err, TN_E_ARG, "%s is a bool of value %u, not 0 or 1", what, *kv->data);
  }
  return st;
}

static tn_status read_entry(tn_gguf_cursor *c, tn_gguf_kv *kv)
{
  tn_status st = tn_gguf_take_str(c, "a metadata key", &kv->key);
  if (st != TN_OK) return st;
  if (kv->key.n == 0 || kv->key.n > MAX_KEY) {
    return tn_gguf_fail(c->part, c->err, TN_E_ARG, "a metadata key has %zu bytes, the format allows 1 to %d", kv->key.n,
                        MAX_KEY);
  }
  char key[72], what[96] = "key '";
  strcat(what, tn_gguf_show(kv->key, key));
  strcat(what, "'");
  st = tn_gguf_take_u32(c, what, &kv->type);
  return st == TN_OK ? read_value(c, kv, what) : st;
}

static tn_str key_at(const void *ctx, uint64_t i) { return ((const tn_gguf_kv *)ctx)[i].key; }

tn_status tn_gguf_read_kv(tn_gguf_part *part, tn_gguf_cursor *c)
{
  part->kv = tn_zalloc((size_t)part->n_kv, sizeof *part->kv);
  if (!part->kv) {
    return tn_gguf_fail(part, c->err, TN_E_NOMEM, "no memory for %llu metadata entries",
                        (unsigned long long)part->n_kv);
  }
  for (uint64_t i = 0; i < part->n_kv; i++) {
    tn_status st = read_entry(c, &part->kv[i]);
    if (st != TN_OK) return st;
  }
  uint64_t dup;
  char key[72];
  tn_status st = tn_gguf_names_build(&part->keys, (size_t)part->n_kv, key_at, part->kv, &dup);
  if (st != TN_OK) return tn_gguf_fail(part, c->err, st, "no memory for the metadata index");
  if (dup == UINT64_MAX) return TN_OK;
  return tn_gguf_fail(part, c->err, TN_E_ARG, "metadata key '%s' is there twice", tn_gguf_show(part->kv[dup].key, key));
}

void tn_gguf_kv_clear(tn_gguf_part *part)
{
  for (uint64_t i = 0; part->kv && i < part->n_kv; i++) free((void *)(uintptr_t)part->kv[i].arr.index);
  free(part->kv);
  tn_gguf_names_clear(&part->keys);
  part->kv = NULL;
  part->n_kv = 0;
}

const tn_gguf_kv *tn_gguf_kv_find(const tn_gguf_part *part, const char *key)
{
  uint64_t i = tn_gguf_names_find(&part->keys, key);
  return i == UINT64_MAX ? NULL : &part->kv[i];
}
