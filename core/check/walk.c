/* walk: see walk.h. */
#include "check/walk.h"

#include <stdio.h>
#include <string.h>

#include "loader/slot.h"
#include "loader/validate.h"

#define WHAT 128u /* bytes of a thing's name */

/* Is there an object of n bytes at p? Asked of the walker, which may say no. */
static bool object(const tn_walker *w, const char *what, const void *p, size_t n)
{
  return p && (!w->object || w->object(w->ctx, what, p, n));
}

/* A struct with struct_size first: its head, then as much of it as both sides know. false: smaller than the ABI's. */
static bool sized(const tn_walker *w, const char *what, const void *p, size_t size)
{
  uint32_t own;
  if (!object(w, what, p, sizeof own)) return false;
  memcpy(&own, p, sizeof own);
  return own >= size && object(w, what, p, size);
}

/* "headfield" into out. */
static void join(char out[WHAT], const char *head, const char *field)
{
  snprintf(out, WHAT, "%.70s%.50s", head, field);
}

static void string(const tn_walker *w, const char *what, const char *s)
{
  if (s && w->string) w->string(w->ctx, what, s);
}

static void param(const tn_walker *w, const char *what, const tn_param *p);

/* A NULL-terminated list, one entry after the other, since its length is only known by reading it. */
static void list(const tn_walker *w, const char *what, const void *p, bool of_params)
{
  const void *const *at = p;
  for (size_t i = 0; at && i <= TN_LIST_MAX; i++) {
    char entry[WHAT], index[24];
    snprintf(index, sizeof index, "[%zu]", i);
    join(entry, what, index);
    if (!object(w, entry, &at[i], sizeof at[i]) || !at[i]) return;
    if (of_params)
      param(w, entry, at[i]);
    else
      string(w, entry, at[i]);
  }
}

/* A pointer field of a struct. */
typedef struct field {
  const char *name;
  size_t offset;
  enum { STRING, STRINGS, PARAMS, FUNCTION } kind;
} field;

static void visit(const tn_walker *w, const char *head, const void *p, const field *fields, size_t n)
{
  for (size_t i = 0; i < n; i++) {
    char what[WHAT];
    const void *at;
    join(what, head, fields[i].name);
    memcpy(&at, (const char *)p + fields[i].offset, sizeof at);
    switch (fields[i].kind) {
      case STRING: string(w, what, at); break;
      case STRINGS: list(w, what, at, false); break;
      case PARAMS: list(w, what, at, true); break;
      case FUNCTION:
        if (at && w->function) w->function(w->ctx, what, at);
        break;
    }
  }
}

static const field module_fields[] = {
    {"name", offsetof(tn_module, name), STRING},     {"version", offsetof(tn_module, version), STRING},
    {"vendor", offsetof(tn_module, vendor), STRING}, {"license", offsetof(tn_module, license), STRING},
    {"build", offsetof(tn_module, build), STRING},   {"shutdown", offsetof(tn_module, shutdown), FUNCTION},
};
static const field desc_fields[] = {
    {"id", offsetof(tn_desc, id), STRING},
    {"name", offsetof(tn_desc, name), STRING},
    {"version", offsetof(tn_desc, version), STRING},
    {"summary", offsetof(tn_desc, summary), STRING},
    {"provides", offsetof(tn_desc, provides), STRINGS},
    {"needs", offsetof(tn_desc, needs), STRINGS},
    {"conflicts", offsetof(tn_desc, conflicts), STRINGS},
    {"params", offsetof(tn_desc, params), PARAMS},
    {"counters", offsetof(tn_desc, counters), STRINGS},
    {"validate", offsetof(tn_desc, validate), FUNCTION},
    {"create", offsetof(tn_desc, create), FUNCTION},
    {"destroy", offsetof(tn_desc, destroy), FUNCTION},
    {"set", offsetof(tn_desc, set), FUNCTION},
    {"ext", offsetof(tn_desc, ext), FUNCTION},
};
static const field param_fields[] = {
    {".key", offsetof(tn_param, key), STRING},
    {".help", offsetof(tn_param, help), STRING},
    {".unit", offsetof(tn_param, unit), STRING},
    {".def", offsetof(tn_param, def), STRING},
};

static void param(const tn_walker *w, const char *what, const tn_param *p)
{
  if (!sized(w, what, p, sizeof *p)) return;
  visit(w, what, p, param_fields, TN_ARRAY_LEN(param_fields));
  if (p->type != TN_T_ENUM || p->n_choices > TN_LIST_MAX) return;
  if (!object(w, what, p->choices, p->n_choices * sizeof *p->choices)) return;
  for (uint32_t i = 0; i < p->n_choices; i++) {
    char choice[WHAT], index[32];
    snprintf(index, sizeof index, ".choices[%u]", i);
    join(choice, what, index);
    string(w, choice, p->choices[i]);
  }
}

static void vtable(const tn_walker *w, const char *what, const tn_desc *d)
{
  size_t n;
  uint32_t size;
  const tn_hook *hooks = tn_slot_hooks(d->slot, &n, &size);
  if (!hooks || !sized(w, what, d->vtable, size)) return;
  for (size_t i = 0; i < n; i++) {
    char head[WHAT];
    const field f = {hooks[i].name, hooks[i].offset, FUNCTION};
    join(head, what, ".");
    visit(w, head, d->vtable, &f, 1);
  }
}

void tn_walk(const tn_module *m, const tn_walker *w)
{
  if (!sized(w, "module", m, sizeof *m)) return;
  visit(w, "module.", m, module_fields, TN_ARRAY_LEN(module_fields));
  uint32_t n = m->n_desc < TN_NOTE_MAX ? m->n_desc : TN_NOTE_MAX;
  if (!object(w, "module.desc", m->desc, n * sizeof *m->desc)) return;
  for (uint32_t i = 0; i < n; i++) {
    char what[WHAT], head[WHAT];
    snprintf(what, sizeof what, "desc[%u]", i);
    if (!m->desc[i] || !sized(w, what, m->desc[i], sizeof(tn_desc))) continue;
    join(head, what, ".");
    visit(w, head, m->desc[i], desc_fields, TN_ARRAY_LEN(desc_fields));
    join(head, what, ".vtable");
    vtable(w, head, m->desc[i]);
  }
}
