/* gguf_bytes: see gguf_bytes.h. */
#include "gguf_bytes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *need(void *p)
{
  if (!p) {
    fprintf(stderr, "gguf_bytes: no memory\n");
    abort();
  }
  return p;
}

void gb_raw(gguf_bytes *b, const void *p, size_t n)
{
  if (n == 0) return;
  b->p = need(realloc(b->p, b->n + n));
  if (p)
    memcpy(b->p + b->n, p, n);
  else
    memset(b->p + b->n, 0, n);
  b->n += n;
}

void gb_u8(gguf_bytes *b, uint8_t v) { gb_raw(b, &v, sizeof v); }

void gb_u32(gguf_bytes *b, uint32_t v) { gb_raw(b, &v, sizeof v); }

void gb_u64(gguf_bytes *b, uint64_t v) { gb_raw(b, &v, sizeof v); }

void gb_f32(gguf_bytes *b, float v) { gb_raw(b, &v, sizeof v); }

void gb_str(gguf_bytes *b, const char *s)
{
  gb_u64(b, strlen(s));
  gb_raw(b, s, strlen(s));
}

void gb_align(gguf_bytes *b, size_t to) { gb_raw(b, NULL, (to - b->n % to) % to); }

void gb_head(gguf_bytes *b, uint64_t n_tensors, uint64_t n_kv)
{
  gb_raw(b, "GGUF", 4);
  gb_u32(b, 3);
  gb_u64(b, n_tensors);
  gb_u64(b, n_kv);
}

void gb_key(gguf_bytes *b, const char *key, uint32_t type)
{
  gb_str(b, key);
  gb_u32(b, type);
}

void gb_array(gguf_bytes *b, uint32_t type, uint64_t n)
{
  gb_u32(b, type);
  gb_u64(b, n);
}

void gb_tensor(gguf_bytes *b, const char *name, uint32_t n_dims, const uint64_t *ne, uint32_t dtype, uint64_t offset)
{
  gb_str(b, name);
  gb_u32(b, n_dims);
  for (uint32_t d = 0; d < n_dims; d++) gb_u64(b, ne[d]);
  gb_u32(b, dtype);
  gb_u64(b, offset);
}

void gb_save(const gguf_bytes *b, const char *path)
{
  FILE *f = need(fopen(path, "wb"));
  if (fwrite(b->p, 1, b->n, f) != b->n || fclose(f) != 0) {
    fprintf(stderr, "gguf_bytes: cannot write %s\n", path);
    abort();
  }
}

void gb_free(gguf_bytes *b)
{
  free(b->p);
  *b = (gguf_bytes){0};
}

tn_status gb_open(const gguf_bytes *b, tn_gguf **out, void **copy, tn_err *err)
{
  *copy = need(malloc(b->n ? b->n : 1));
  if (b->n) memcpy(*copy, b->p, b->n);
  return tn_gguf_open_mem(*copy, b->n, "mem", out, err);
}

/* True when text holds each of the words. */
static bool holds(const char *text, const char *words)
{
  while (*words) {
    char word[128];
    size_t n = strcspn(words, "|");
    snprintf(word, sizeof word, "%.*s", (int)n, words);
    if (!strstr(text, word)) return false;
    words += n + (words[n] == '|');
  }
  return true;
}

bool gb_refused(gguf_bytes *b, tn_status code, const char *words)
{
  tn_gguf *g = NULL;
  void *copy = NULL;
  tn_err err = tn_err_init();
  tn_status st = gb_open(b, &g, &copy, &err);
  bool ok = st == code && !g && err.code == code && strncmp(err.msg, "mem: ", 5) == 0 && holds(err.msg, words);
  if (!ok) fprintf(stderr, "want %s with '%s', got %s: %s\n", tn_status_name(code), words, tn_status_name(st), err.msg);
  tn_gguf_close(g);
  free(copy);
  gb_free(b);
  return ok;
}

bool gb_opens(gguf_bytes *b)
{
  tn_gguf *g = NULL;
  void *copy = NULL;
  tn_err err = tn_err_init();
  tn_status st = gb_open(b, &g, &copy, &err);
  if (st != TN_OK) fprintf(stderr, "%s: %s\n", tn_status_name(st), err.msg);
  tn_gguf_close(g);
  free(copy);
  gb_free(b);
  return st == TN_OK;
}
