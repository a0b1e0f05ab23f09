/* slots: see slots.h. A file is "TNSLOT1\n", the salt's digest, the number of tokens (u64), the tokens (i32), and the
 * engine's bytes, which know their own fingerprint and checksum. */
#include "serve/slots.h"

#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "sha256.h"

#define MARK "TNSLOT1\n"
#define HEAD (8 + 32 + sizeof(uint64_t))

typedef struct slot {
  uint8_t salt[32];
  int32_t *tokens; /* [n_tokens] */
  uint8_t *bytes;  /* [n]; NULL: empty */
  size_t n_tokens, n;
} slot;

struct tn_slots {
  pthread_mutex_t lock;
  const char *dir;
  uint32_t count;
  slot *at; /* [count] */
};

static void digest(const char *salt, uint8_t out[32])
{
  tn_sha256 h;
  tn_sha256_init(&h);
  if (salt) tn_sha256_update(&h, salt, strlen(salt) + 1); /* an empty salt is another than none */
  tn_sha256_final(&h, out);
}

static void clear(slot *s)
{
  free(s->tokens);
  free(s->bytes);
  *s = (slot){0};
}

tn_slots *tn_slots_new(uint32_t n, const char *dir)
{
  tn_slots *s = tn_zalloc(1, sizeof *s);
  if (!s) return NULL;
  s->at = tn_zalloc(n, sizeof *s->at);
  s->count = s->at ? n : 0;
  s->dir = dir;
  pthread_mutex_init(&s->lock, NULL);
  if (s->at) return s;
  tn_slots_free(s);
  return NULL;
}

void tn_slots_free(tn_slots *s)
{
  if (!s) return;
  for (uint32_t i = 0; i < s->count; i++) clear(&s->at[i]);
  pthread_mutex_destroy(&s->lock);
  free(s->at);
  free(s);
}

void tn_slots_put(tn_slots *s, int64_t i, const char *salt, const int32_t *tokens, size_t n_tokens, uint8_t *bytes,
                  size_t n)
{
  int32_t *copy = tn_zalloc(n_tokens, sizeof *copy);
  if (!copy || i < 0 || i >= s->count) {
    free(copy);
    free(bytes);
    return;
  }
  memcpy(copy, tokens, n_tokens * sizeof *copy);
  pthread_mutex_lock(&s->lock);
  clear(&s->at[i]);
  s->at[i] = (slot){.tokens = copy, .n_tokens = n_tokens, .bytes = bytes, .n = n};
  digest(salt, s->at[i].salt);
  pthread_mutex_unlock(&s->lock);
}

size_t tn_slots_match(tn_slots *s, int64_t i, const char *salt, const int32_t *prompt, size_t n_prompt, uint8_t **bytes,
                      size_t *n)
{
  uint8_t want[32];
  size_t found = 0;
  digest(salt, want);
  if (i < 0 || i >= s->count) return 0;
  pthread_mutex_lock(&s->lock);
  const slot *t = &s->at[i];
  bool fits = t->bytes && t->n_tokens < n_prompt && memcmp(t->salt, want, sizeof want) == 0 &&
              memcmp(t->tokens, prompt, t->n_tokens * sizeof *prompt) == 0;
  *bytes = fits ? malloc(t->n) : NULL;
  if (*bytes) {
    memcpy(*bytes, t->bytes, t->n);
    *n = t->n;
    found = t->n_tokens;
  }
  pthread_mutex_unlock(&s->lock);
  return found;
}

static bool save(const slot *t, const char *path, tn_fault *f)
{
  uint64_t n = t->n_tokens;
  FILE *out = fopen(path, "wb");
  if (!out) return tn_fault_status(f, 500, "the slot's file cannot be written: %s", strerror(errno));
  bool ok = fwrite(MARK, 1, 8, out) == 8 && fwrite(t->salt, 1, 32, out) == 32 && fwrite(&n, sizeof n, 1, out) == 1 &&
            fwrite(t->tokens, sizeof *t->tokens, t->n_tokens, out) == t->n_tokens &&
            fwrite(t->bytes, 1, t->n, out) == t->n;
  int why = errno;
  if (fclose(out) != 0 && ok) ok = false, why = errno;
  return ok || tn_fault_status(f, 500, "the slot's file cannot be written: %s", strerror(why));
}

/* A file's bytes as a slot, which owns copies. */
static bool parse(const char *p, size_t n, slot *t, tn_fault *f)
{
  uint64_t n_tokens = 0;
  bool ok = n >= HEAD && memcmp(p, MARK, 8) == 0;
  if (ok) memcpy(&n_tokens, p + 40, sizeof n_tokens);
  ok = ok && n_tokens > 0 && n_tokens <= (n - HEAD) / sizeof *t->tokens;
  if (!ok) return tn_fault_field(f, "filename", "the file holds no slot, or is cut short");
  size_t text = (size_t)n_tokens * sizeof *t->tokens;
  *t = (slot){.n_tokens = (size_t)n_tokens, .n = n - HEAD - text};
  memcpy(t->salt, p + 8, 32);
  t->tokens = malloc(text);
  t->bytes = malloc(t->n + 1);
  if (!t->tokens || !t->bytes) {
    clear(t);
    return tn_fault_status(f, 503, "no memory for the slot");
  }
  memcpy(t->tokens, p + HEAD, text);
  memcpy(t->bytes, p + HEAD + text, t->n);
  return true;
}

static bool restore(slot *t, const char *path, tn_fault *f)
{
  char *bytes;
  size_t n;
  slot fresh = {0};
  tn_err err = tn_err_init();
  if (tn_file_read(path, (size_t)1 << 34, &bytes, &n, &err) != TN_OK)
    return tn_fault_field(f, "filename", "there is no such saved slot");
  bool ok = parse(bytes, n, &fresh, f);
  free(bytes);
  if (!ok) return false;
  clear(t);
  *t = fresh;
  return true;
}

/* A plain name: no folder, no hidden file. */
static bool plain(const char *name)
{
  if (!name || !*name || *name == '.' || strlen(name) > 128) return false;
  for (; *name; name++)
    if (!isalnum((unsigned char)*name) && !strchr("._-", *name)) return false;
  return true;
}

bool tn_slots_act(tn_slots *s, int64_t i, const char *action, const char *name, size_t *n_tokens, size_t *n_bytes,
                  tn_fault *f)
{
  bool file = strcmp(action, "erase") != 0, ok = true;
  if (i < 0 || i >= s->count)
    return tn_fault_status(f, 404, "there is no slot %lld; there are %u", (long long)i, s->count);
  if (file && strcmp(action, "save") != 0 && strcmp(action, "restore") != 0)
    return tn_fault_field(f, "action", "action = %s: want save, restore or erase", action);
  if (file && !s->dir)
    return tn_fault_status(f, 501, "slots are not saved here: start the server with --slot-save-path");
  if (file && !plain(name))
    return tn_fault_field(f, "filename", "filename: want letters, digits, '.', '_' and '-', not beginning with a dot");
  char *path = file ? tn_asprintf("%s/%s", s->dir, name) : NULL;
  if (file && !path) return tn_fault_status(f, 503, "no memory for the slot");
  pthread_mutex_lock(&s->lock);
  slot *t = &s->at[i];
  if (!file)
    clear(t);
  else if (!strcmp(action, "restore"))
    ok = restore(t, path, f);
  else
    ok = t->bytes ? save(t, path, f) : tn_fault_field(f, "id", "slot %lld is empty", (long long)i);
  *n_tokens = t->n_tokens;
  *n_bytes = t->n;
  pthread_mutex_unlock(&s->lock);
  free(path);
  return ok;
}

json_t *tn_slots_json(tn_slots *s)
{
  json_t *list = json_array();
  pthread_mutex_lock(&s->lock);
  for (uint32_t i = 0; i < s->count; i++)
    json_array_append_new(list, json_pack("{s:i, s:I, s:I}", "id", (int)i, "n_tokens", (json_int_t)s->at[i].n_tokens,
                                          "n_bytes", (json_int_t)s->at[i].n));
  pthread_mutex_unlock(&s->lock);
  return list;
}
