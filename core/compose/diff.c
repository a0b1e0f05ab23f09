/* diff: what differs between two compositions. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compose/compose_int.h"

typedef struct pair { /* one fact in both; a or b NULL: only in the other */
  const tn_fact *a, *b;
} pair;

/* What is compared of a fact: the value, and of a part also its id and version. Free with free(). */
static char *words(const tn_composition *c, const tn_fact *f)
{
  if (!f) return tn_strdup("-");
  if (!f->is_part) return tn_strdup(f->value);
  const tn_desc *d = c->stack.part[f->part].desc;
  return tn_asprintf("%s (%s %s)", f->value, d->id, d->version);
}

static const tn_fact *find(const tn_facts *f, const char *name)
{
  for (size_t i = 0; i < f->n; i++)
    if (!strcmp(f->at[i].name, name)) return &f->at[i];
  return NULL;
}

/* Calls fn for each difference: those of a in order, then what only b has. */
typedef tn_status (*diff_fn)(void *ctx, const char *name, const char *a, const char *b, bool output);

static tn_status compare(const tn_composition *ca, const tn_composition *cb, pair p, diff_fn fn, void *ctx)
{
  char *a = words(ca, p.a), *b = words(cb, p.b);
  const tn_fact *any = p.a ? p.a : p.b;
  tn_status st = a && b ? TN_OK : TN_E_NOMEM;
  if (!st && strcmp(a, b) != 0) st = fn(ctx, any->name, a, b, any->output);
  free(a);
  free(b);
  return st;
}

static tn_status walk(const tn_composition *ca, const tn_composition *cb, diff_fn fn, void *ctx)
{
  tn_facts a, b = {0};
  tn_status st = tn_facts_of(ca, &a);
  if (!st) st = tn_facts_of(cb, &b);
  for (size_t i = 0; !st && i < a.n; i++) st = compare(ca, cb, (pair){&a.at[i], find(&b, a.at[i].name)}, fn, ctx);
  for (size_t i = 0; !st && i < b.n; i++)
    if (!find(&a, b.at[i].name)) st = compare(ca, cb, (pair){NULL, &b.at[i]}, fn, ctx);
  tn_facts_free(&a);
  tn_facts_free(&b);
  return st;
}

static tn_status to_text(void *ctx, const char *name, const char *a, const char *b, bool output)
{
  fprintf(ctx, "%-34s %s -> %s%s\n", name, *a ? a : "(none)", *b ? b : "(none)",
          output ? "" : "  [does not change tokens]");
  return TN_OK;
}

char *tn_composition_diff(const tn_composition *a, const tn_composition *b)
{
  char *text = NULL;
  size_t n;
  FILE *f = open_memstream(&text, &n);
  if (!f) return NULL;
  tn_status st = walk(a, b, to_text, f);
  text = tn_text_finish(f, &text);
  if (!st) return text;
  free(text);
  return NULL;
}

static tn_status to_json(void *ctx, const char *name, const char *a, const char *b, bool output)
{
  json_t *o = json_pack("{s:s, s:s, s:s, s:b}", "name", name, "a", a, "b", b, "changes_tokens", output);
  return json_array_append_new(ctx, o) == 0 ? TN_OK : TN_E_NOMEM;
}

json_t *tn_composition_diff_json(const tn_composition *a, const tn_composition *b)
{
  char hex_a[TN_FINGERPRINT_HEX + 1], hex_b[TN_FINGERPRINT_HEX + 1];
  tn_composition_short(a, hex_a);
  tn_composition_short(b, hex_b);
  json_t *list = json_array();
  if (!list) return NULL;
  if (walk(a, b, to_json, list) == TN_OK)
    return json_pack("{s:s, s:s, s:o}", "a", hex_a, "b", hex_b, "differences", list);
  json_decref(list);
  return NULL;
}
