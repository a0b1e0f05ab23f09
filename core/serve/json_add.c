/* json_add: see json_add.h. */
#include "serve/json_add.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static void settle(json_t **to, int failed)
{
  if (!failed) return;
  json_decref(*to);
  *to = NULL;
}

void tn_json_set(json_t **to, const char *key, json_t *v) { settle(to, json_object_set_new(*to, key, v)); }

void tn_json_append(json_t **to, json_t *v) { settle(to, json_array_append_new(*to, v)); }

typedef struct text {
  char *p; /* [n] and room for a NUL */
  size_t n, cap;
  bool failed; /* json_dumps forgets some failures, so this one is kept here */
} text;

static int add(const char *bytes, size_t n, void *ctx)
{
  text *t = ctx;
  if (t->n + n + 1 > t->cap) {
    size_t cap = 2 * (t->n + n) + 256;
    char *grown = t->failed ? NULL : realloc(t->p, cap);
    t->failed = !grown;
    if (!grown) return -1;
    t->p = grown;
    t->cap = cap;
  }
  memcpy(t->p + t->n, bytes, n);
  t->n += n;
  return 0;
}

char *tn_json_text(const json_t *v, size_t flags)
{
  text t = {0};
  if (v && json_dump_callback(v, add, &t, flags) == 0 && !t.failed && t.n > 0) {
    t.p[t.n] = '\0';
    return t.p;
  }
  free(t.p);
  return NULL;
}
