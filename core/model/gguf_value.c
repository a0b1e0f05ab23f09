/* gguf_value: typed look-ups. A value converts only where nothing is lost; otherwise the look-up says false. */
#include <string.h>

#include "gguf_int.h"

/* An integer of any width: value, or magnitude below zero. */
typedef struct integer {
  bool negative;
  uint64_t u; /* the value, or -value where negative */
} integer;

static integer from_signed(int64_t v)
{
  return v < 0 ? (integer){true, ~(uint64_t)v + 1u} : (integer){false, (uint64_t)v};
}

static bool load_integer(uint32_t type, const uint8_t *p, integer *out)
{
  union {
    int8_t i8;
    uint16_t u16;
    int16_t i16;
    uint32_t u32;
    int32_t i32;
    uint64_t u64;
    int64_t i64;
  } v = {0};
  memcpy(&v, p, tn_gguf_type_size(type));
  switch (type) {
    case TN_GGUF_U8: *out = (integer){false, *p}; return true;
    case TN_GGUF_I8: *out = from_signed(v.i8); return true;
    case TN_GGUF_U16: *out = (integer){false, v.u16}; return true;
    case TN_GGUF_I16: *out = from_signed(v.i16); return true;
    case TN_GGUF_U32: *out = (integer){false, v.u32}; return true;
    case TN_GGUF_I32: *out = from_signed(v.i32); return true;
    case TN_GGUF_U64: *out = (integer){false, v.u64}; return true;
    case TN_GGUF_I64: *out = from_signed(v.i64); return true;
    default: return false;
  }
}

static bool load_u64(uint32_t type, const uint8_t *p, uint64_t *out)
{
  integer v;
  if (!load_integer(type, p, &v) || v.negative) return false;
  *out = v.u;
  return true;
}

static bool load_f64(uint32_t type, const uint8_t *p, double *out)
{
  integer v;
  float f;
  if (type == TN_GGUF_F32) {
    memcpy(&f, p, sizeof f);
    *out = (double)f;
    return true;
  }
  if (type == TN_GGUF_F64) {
    memcpy(out, p, sizeof *out);
    return true;
  }
  if (!load_integer(type, p, &v)) return false;
  if (v.u > (1ull << 53) && (v.u & ((1ull << (11 - __builtin_clzll(v.u))) - 1)) != 0) return false;
  *out = v.negative ? -(double)v.u : (double)v.u;
  return true;
}

static const tn_gguf_kv *find(const tn_gguf *g, const char *key) { return tn_gguf_kv_find(&g->parts[0], key); }

bool tn_gguf_kv_u64(const tn_gguf_kv *kv, uint64_t *out) { return kv && kv->data && load_u64(kv->type, kv->data, out); }

bool tn_gguf_has(const tn_gguf *g, const char *key) { return find(g, key) != NULL; }

bool tn_gguf_u64(const tn_gguf *g, const char *key, uint64_t *out) { return tn_gguf_kv_u64(find(g, key), out); }

bool tn_gguf_f64(const tn_gguf *g, const char *key, double *out)
{
  const tn_gguf_kv *kv = find(g, key);
  return kv && kv->data && load_f64(kv->type, kv->data, out);
}

bool tn_gguf_bool(const tn_gguf *g, const char *key, bool *out)
{
  const tn_gguf_kv *kv = find(g, key);
  if (!kv || kv->type != TN_GGUF_BOOL) return false;
  *out = *kv->data != 0;
  return true;
}

bool tn_gguf_string(const tn_gguf *g, const char *key, tn_str *out)
{
  const tn_gguf_kv *kv = find(g, key);
  if (!kv || kv->type != TN_GGUF_STR) return false;
  *out = kv->str;
  return true;
}

bool tn_gguf_array(const tn_gguf *g, const char *key, tn_gguf_arr *out)
{
  const tn_gguf_kv *kv = find(g, key);
  if (!kv || kv->type != TN_GGUF_ARR) return false;
  *out = kv->arr;
  return true;
}

/* Element i of an array of numbers or bools; NULL for strings and beyond the end. */
static const uint8_t *element(const tn_gguf_arr *a, uint64_t i)
{
  size_t size = tn_gguf_type_size(a->type);
  return size && i < a->n ? a->data + i * size : NULL;
}

bool tn_gguf_arr_u64(const tn_gguf_arr *a, uint64_t i, uint64_t *out)
{
  const uint8_t *p = element(a, i);
  return p && load_u64(a->type, p, out);
}

bool tn_gguf_arr_f64(const tn_gguf_arr *a, uint64_t i, double *out)
{
  const uint8_t *p = element(a, i);
  return p && load_f64(a->type, p, out);
}

bool tn_gguf_arr_bool(const tn_gguf_arr *a, uint64_t i, bool *out)
{
  const uint8_t *p = element(a, i);
  if (!p || a->type != TN_GGUF_BOOL) return false;
  *out = *p != 0;
  return true;
}

bool tn_gguf_arr_str(const tn_gguf_arr *a, uint64_t i, tn_str *out)
{
  if (a->type != TN_GGUF_STR || i >= a->n) return false;
  uint64_t n;
  const uint8_t *p = a->data + a->index[i];
  memcpy(&n, p, sizeof n);
  *out = (tn_str){(const char *)p + sizeof n, (size_t)n};
  return true;
}
