/* open_vocab: see open_vocab.h. */
#include "open_vocab.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <unistd.h>

static vocab load(tn_gguf *g, void *bytes, const char *what)
{
  vocab v = {.bytes = bytes, .g = g};
  tn_err err = tn_err_init();
  cr_assert(eq(int, tn_tokenizer_load(g, &v.t, &err), TN_OK), "%s: %s", what, err.msg);
  return v;
}

static vocab open_path(const char *path)
{
  tn_gguf *g;
  tn_err err = tn_err_init();
  cr_assert(eq(int, tn_gguf_open(path, &g, &err), TN_OK), "%s", err.msg);
  return load(g, NULL, path);
}

vocab vocab_open(const char *name)
{
  char path[512];
  snprintf(path, sizeof path, "%s/tests/data/tokenizer/%s", TN_SOURCE_DIR, name);
  return open_path(path);
}

vocab vocab_open_model(const char *name)
{
  char path[512];
  snprintf(path, sizeof path, "%s/models/%s", TN_SOURCE_DIR, name);
  if (access(path, R_OK) != 0) cr_skip_test("models/%s is not there: contrib/get-model fetches it", name);
  return open_path(path);
}

vocab vocab_make(const vocab_spec *s)
{
  vocab_bytes b = vocab_file(s);
  tn_gguf *g;
  tn_err err = tn_err_init();
  cr_assert(eq(int, tn_gguf_open_mem(b.p, b.n, "made.gguf", &g, &err), TN_OK), "%s", err.msg);
  return load(g, b.p, "made.gguf");
}

tn_status vocab_refused(const vocab_spec *s, tn_err *err)
{
  vocab_bytes b = vocab_file(s);
  tn_gguf *g;
  tn_tokenizer *t = (tn_tokenizer *)&g;
  *err = tn_err_init();
  cr_assert(eq(int, tn_gguf_open_mem(b.p, b.n, "made.gguf", &g, err), TN_OK), "%s", err->msg);
  tn_status st = tn_tokenizer_load(g, &t, err);
  cr_expect(st != TN_OK && t == NULL && err->code == st);
  cr_expect(strncmp(err->msg, "made.gguf: ", 11) == 0, "no file name: %s", err->msg);
  tn_gguf_close(g);
  free(b.p);
  return st;
}

void vocab_close(vocab *v)
{
  tn_tokenizer_free(v->t);
  tn_gguf_close(v->g);
  free(v->bytes);
}

char *vocab_ids(const tn_tokenizer *t, const char *text, size_t n, uint32_t flags)
{
  int32_t *ids;
  size_t n_ids, o = 0;
  tn_err err = tn_err_init();
  tn_status st = tn_tokenize(t, text, n, flags, &ids, &n_ids, &err);
  char *out = malloc(st == TN_OK ? 12 * n_ids + 1 : sizeof err.msg + 16);
  cr_assert(out != NULL);
  out[0] = '\0';
  if (st != TN_OK) sprintf(out, "error: %s", err.msg);
  for (size_t i = 0; i < n_ids; i++) o += (size_t)sprintf(out + o, i ? " %d" : "%d", ids[i]);
  free(ids);
  return out;
}

void vocab_expect(const tn_tokenizer *t, const char *text, uint32_t flags, const char *ids)
{
  char *got = vocab_ids(t, text, strlen(text), flags);
  cr_expect(strcmp(got, ids) == 0, "'%s' flags %u: %s, want %s", text, flags, got, ids);
  free(got);
}

void vocab_round_trip(const tn_tokenizer *t, const char *text, size_t n)
{
  int32_t *ids;
  size_t n_ids, n_back;
  char *back;
  tn_err err = tn_err_init();
  cr_assert(eq(int, tn_tokenize(t, text, n, 0, &ids, &n_ids, &err), TN_OK), "%s", err.msg);
  cr_assert(eq(int, tn_detokenize(t, ids, n_ids, 0, &back, &n_back, &err), TN_OK), "%s", err.msg);
  cr_expect(n_back == n && memcmp(back, text, n) == 0, "%zu bytes came back as %zu: %.80s", n, n_back, back);
  free(ids);
  free(back);
}

char *data_read(const char *name, size_t *n)
{
  char path[512];
  snprintf(path, sizeof path, "%s/tests/data/%s", TN_SOURCE_DIR, name);
  FILE *f = fopen(path, "rb");
  cr_assert(f != NULL, "%s is missing", path);
  cr_assert(fseek(f, 0, SEEK_END) == 0);
  long size = ftell(f);
  rewind(f);
  char *p = malloc((size_t)size + 1);
  cr_assert(p != NULL && fread(p, 1, (size_t)size, f) == (size_t)size);
  p[size] = '\0';
  *n = (size_t)size;
  fclose(f);
  return p;
}

/* \xNN back to bytes, in place. Returns the length. */
static size_t unspell(char *s)
{
  size_t o = 0;
  for (size_t i = 0; s[i]; i++) {
    unsigned v;
    if (s[i] == '\\' && sscanf(s + i, "\\x%2X", &v) == 1) {
      s[o++] = (char)v;
      i += 3;
    } else {
      s[o++] = s[i];
    }
  }
  return o;
}

size_t golden_each(const char *name, golden_fn each, void *ctx)
{
  char path[128];
  size_t n, lines = 0;
  snprintf(path, sizeof path, "tokenizer/%s", name);
  char *file = data_read(path, &n);
  for (char *line = file, *end; (end = strchr(line, '\n')) != NULL; line = end + 1, lines++) {
    *end = '\0';
    char *text = strchr(line, '\t'), *ids = text ? strchr(text + 1, '\t') : NULL;
    cr_assert(ids != NULL, "%s: line %zu has no three columns", name, lines + 1);
    *text++ = '\0';
    *ids++ = '\0';
    size_t n_text = unspell(text);
    each(ctx, line, text, n_text, ids);
  }
  free(file);
  return lines;
}

static void expect_line(void *ctx, const char *key, const char *text, size_t n, const char *ids)
{
  char *got = vocab_ids(ctx, text, n, (uint32_t)strtoul(key, NULL, 10));
  cr_expect(strcmp(got, ids) == 0, "'%.*s' flags %s: %s, want %s", (int)n, text, key, got, ids);
  free(got);
}

void golden_expect(const tn_tokenizer *t, const char *name)
{
  cr_expect(golden_each(name, expect_line, (void *)(uintptr_t)t) >= 50, "%s is short", name);
}

void vectors_expect(const tn_tokenizer *t, const char *name)
{
  static const char parting[] = "\n__ggml_vocab_test__\n";
  char path[128];
  size_t n, lines = 0;
  snprintf(path, sizeof path, "tokenizer/%s.inp", name);
  char *texts = data_read(path, &n);
  snprintf(path, sizeof path, "tokenizer/%s.out", name);
  char *ids = data_read(path, &n);
  char *text = texts, *end;
  for (char *line = ids; (end = strchr(line, '\n')) != NULL; line = end + 1, lines++) {
    *end = '\0';
    while (*line == ' ') line++;
    for (char *tail = end; tail > line && tail[-1] == ' ';) *--tail = '\0';
    char *stop = strstr(text, parting);
    cr_assert(stop != NULL, "%s has too few texts", name);
    *stop = '\0';
    vocab_expect(t, text, 0, line);
    text = stop + sizeof parting - 1;
  }
  cr_expect(lines == 46 && *text == '\0', "%s: %zu lines", name, lines);
  free(texts);
  free(ids);
}
