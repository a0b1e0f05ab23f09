/* suggest: the nearest changes that make a refused composition work. Every change that is named has been resolved. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compose/compose_int.h"
#include "config/param.h"

enum { MAX_CHANGES = 64, MAX_TRIES = 3000, MAX_STEPS = 3, MAX_AWAY = 256 };

/* Kinds in the order in which they are tried: the mechanism below a technique, an option of the host, one of the plugin
 * that refuses, a technique left out, another one in its place, one more. */
enum { SWAP_MECHANISM = 1, SET_OPTION = 2, SET_VALUE = 3, DROP = 4, SWAP = 5, ADD = 6 };

typedef struct change {
  uint32_t kind;
  uint32_t index;  /* SWAP*, DROP, SET_VALUE: part; SET_OPTION: option */
  uint32_t option; /* SET_VALUE: of the part */
  int64_t value;   /* SET_* */
  const tn_compose_key *key;
  char name[32];
} change;

typedef struct changes {
  size_t n;
  change at[MAX_CHANGES];
} changes;

/* Keeps the list ordered by kind; equal kinds in order of arrival. */
static void push(changes *list, change c)
{
  if (list->n == MAX_CHANGES) return;
  size_t i = list->n++;
  for (; i > 0 && list->at[i - 1].kind > c.kind; i--) list->at[i] = list->at[i - 1];
  list->at[i] = c;
}

/* Every other plugin of a key's slot. */
static void push_names(const tn_stack *s, changes *list, change c, const char *except)
{
  tn_names names;
  if (s->catalog->names(s->catalog->ctx, c.key->slot, &names, NULL)) return;
  for (size_t i = 0; i < names.n; i++) {
    if ((except && !strcmp(names.at[i], except)) || strlen(names.at[i]) >= sizeof c.name) continue;
    snprintf(c.name, sizeof c.name, "%s", names.at[i]);
    push(list, c);
  }
  tn_names_free(&names);
}

static void push_side(const tn_stack *s, changes *list, tn_side side)
{
  if (side.kind == TN_SIDE_PART) {
    const tn_choice *p = &s->part[side.index];
    bool mechanism = p->slot == TN_SLOT_BACKEND || p->slot == TN_SLOT_MEMORY;
    change c = {.kind = mechanism ? SWAP_MECHANISM : SWAP, .index = side.index, .key = tn_compose_key_find(p->key)};
    push_names(s, list, c, p->desc->name);
    c.kind = DROP;
    if (!c.key->required) push(list, c);
  }
  if (side.kind == TN_SIDE_ENGINE) {
    const tn_param *p = s->engine->params[side.index];
    int64_t n = p->type == TN_T_BOOL ? 2 : p->n_choices;
    for (int64_t v = 0; v < n; v++)
      if (v != s->set[side.index]) push(list, (change){.kind = SET_OPTION, .index = side.index, .value = v});
  }
  if (side.kind == TN_SIDE_SLOT) {
    const tn_compose_key *key;
    for (size_t i = 0; (key = tn_compose_key_at(i)); i++)
      if (key->slot == side.index) push_names(s, list, (change){.kind = ADD, .key = key}, NULL);
  }
}

/* The values of a part with another one in place of one; strings and lists are still the part's. free(); NULL: no memory. */
static tn_value *with_value(const tn_choice *p, uint32_t option, int64_t value)
{
  tn_value *v = malloc((p->options.n + 1) * sizeof *v);
  if (!v) return NULL;
  memcpy(v, p->options.values, p->options.n * sizeof *v);
  v[option].v.i = value;
  return v;
}

/* Does part i accept the composition with this value of an option? */
static bool accepts(tn_stack *copy, uint32_t i, uint32_t option, int64_t value)
{
  tn_choice *p = &copy->part[i];
  tn_value *was = p->options.values, *now = with_value(p, option, value);
  if (!now) return false;
  tn_plan_store store;
  tn_err err = tn_err_init();
  p->options.values = now;
  tn_plan_fill(copy, &store);
  bool ok = p->desc->validate(&store.plan, now, &err) == TN_OK;
  p->options.values = was;
  free(now);
  return ok;
}

/* What a whole number, a choice or a switch may be; false for other types. */
static bool limits(const tn_param *p, int64_t *lo, int64_t *hi)
{
  *lo = p->type == TN_T_I64 ? p->imin : 0;
  *hi = p->type == TN_T_I64 ? p->imax : p->type == TN_T_BOOL ? 1 : (int64_t)p->n_choices - 1;
  return p->type == TN_T_I64 || p->type == TN_T_ENUM || p->type == TN_T_BOOL;
}

/* For each option of the part that refuses: the nearest value with which it does not. */
static void push_values(const tn_stack *s, changes *list, const tn_clash *clash)
{
  const tn_choice *p = &s->part[clash->a.index];
  tn_stack *copy = clash->kind == TN_CLASH_VALIDATE ? malloc(sizeof *copy) : NULL;
  if (!copy) return;
  *copy = *s;
  for (uint32_t i = 0; i < p->options.n; i++) {
    int64_t lo, hi, now = p->options.values[i].v.i;
    if (!limits(p->options.params[i], &lo, &hi)) continue;
    bool found = false;
    for (int64_t d = 1; d <= MAX_AWAY && !found; d++)
      for (int sign = 1; sign >= -1 && !found; sign -= 2) {
        if (sign > 0 ? d > hi - now : d > now - lo) continue;
        found = accepts(copy, clash->a.index, i, now + sign * d);
        if (found)
          push(list, (change){.kind = SET_VALUE, .index = clash->a.index, .option = i, .value = now + sign * d});
      }
  }
  free(copy);
}

/* Both ends of a clash. */
static void push_clash(const tn_stack *s, changes *list, const tn_clash *clash)
{
  push_side(s, list, clash->b);
  push_side(s, list, clash->a);
  push_values(s, list, clash);
}

/* Makes a change on s. *opened: the index of a part whose options are to be closed, or UINT32_MAX. */
static bool apply(tn_stack *s, const change *c, uint32_t *opened)
{
  *opened = UINT32_MAX;
  if (c->kind == SET_OPTION) {
    s->set[c->index] = c->value;
    return true;
  }
  if (c->kind == SET_VALUE) {
    tn_value *values = with_value(&s->part[c->index], c->option, c->value);
    if (values) s->part[c->index].options.values = values;
    return values != NULL;
  }
  if (c->kind == DROP) {
    memmove(&s->part[c->index], &s->part[c->index + 1], (s->n - c->index - 1) * sizeof s->part[0]);
    s->n--;
    return true;
  }
  uint32_t i = c->kind == ADD ? s->n : c->index;
  if (i == TN_MAX_PARTS) return false;
  tn_choice p;
  if (tn_choice_open(s, c->key, (tn_str){c->name, strlen(c->name)}, "", &p, NULL)) return false;
  if (c->kind == ADD) {
    s->n++;
  } else {
    p.layer0 = s->part[i].layer0;
    p.layer1 = s->part[i].layer1;
  }
  s->part[i] = p;
  *opened = i;
  return true;
}

/* attention.layers with another plugin in one range. */
static void layer_words(const tn_stack *s, const change *c, char *buf, size_t n)
{
  size_t at = (size_t)snprintf(buf, n, "%s =", TN_KEY_ATTENTION_LAYERS);
  const char *comma = "";
  for (uint32_t i = 0; i < s->n && at < n; i++) {
    const tn_choice *p = &s->part[i];
    if (p->slot != TN_SLOT_ATTENTION) continue;
    char range[32];
    tn_range_words(p, range);
    at += (size_t)snprintf(buf + at, n - at, "%s %s:%s", comma, range, i == c->index ? c->name : p->desc->name);
    comma = ",";
  }
}

/* "parallel.tensor.world = 3" */
static void value_words(const tn_stack *s, const change *c, char *buf, size_t n)
{
  const tn_choice *p = &s->part[c->index];
  char prefix[128];
  tn_option_prefix(p, prefix, sizeof prefix);
  tn_value v = p->options.values[c->option];
  v.v.i = c->value;
  char *text = tn_param_render(p->options.params[c->option], &v);
  snprintf(buf, n, "%s%s = %s", prefix, p->options.params[c->option]->key, text ? text : "?");
  free(text);
}

static void words(const tn_stack *s, const change *c, char *buf, size_t n)
{
  if (c->kind == SET_VALUE)
    value_words(s, c, buf, n);
  else if (c->kind == SET_OPTION)
    tn_option_words(s, c->index, c->value, buf, n);
  else if (c->kind == DROP)
    snprintf(buf, n, "no %s", c->key->key);
  else if (c->kind != ADD && tn_is_range(&s->part[c->index]))
    layer_words(s, c, buf, n);
  else
    snprintf(buf, n, "%s = %s", c->key->key, c->name);
}

typedef struct search { /* for steps of a few changes, all of which are needed */
  uint32_t tries;
  char *buf; /* words of the changes, "and" between */
  size_t n;
} search;

static bool look(search *h, const tn_stack *s, const tn_clash *clash, uint32_t steps);

/* Does the stack work after this change and at most steps - 1 more? Puts their words into h->buf. */
static bool look_at(search *h, tn_stack *copy, const tn_stack *s, const change *c, uint32_t steps)
{
  uint32_t opened;
  *copy = *s;
  if (!apply(copy, c, &opened)) return false;
  tn_clash next;
  bool ok = tn_resolve(copy, &next);
  if (ok)
    h->buf[0] = '\0';
  else
    ok = steps > 1 && look(h, copy, &next, steps - 1);
  if (ok) {
    char rest[512], here[256];
    snprintf(rest, sizeof rest, "%s", h->buf);
    words(s, c, here, sizeof here);
    snprintf(h->buf, h->n, "%s%s%s", here, *rest ? " and " : "", rest);
  }
  if (opened != UINT32_MAX) tn_choice_close(&copy->part[opened]);
  if (c->kind == SET_VALUE) free(copy->part[c->index].options.values);
  return ok;
}

static bool look(search *h, const tn_stack *s, const tn_clash *clash, uint32_t steps)
{
  changes *list = tn_zalloc(1, sizeof *list);
  tn_stack *copy = malloc(sizeof *copy);
  bool ok = false;
  if (list && copy) {
    push_clash(s, list, clash);
    for (size_t i = 0; i < list->n && !ok && h->tries < MAX_TRIES; i++, h->tries++)
      ok = look_at(h, copy, s, &list->at[i], steps);
  }
  free(list);
  free(copy);
  return ok;
}

/* Two single changes of different kinds or places; their words with "or" between. */
static bool single(const tn_stack *s, const changes *list, tn_stack *copy, char *buf, size_t n)
{
  const change *first = NULL;
  char one[512];
  search h = {.buf = one, .n = sizeof one};
  for (size_t i = 0; i < list->n; i++) {
    const change *c = &list->at[i];
    if (first && first->kind == c->kind && first->index == c->index) continue;
    if (!look_at(&h, copy, s, c, 1)) continue;
    size_t at = strlen(buf);
    snprintf(buf + at, n - at, "%s%s", first ? ", or " : "", one);
    if (first) return true;
    first = c;
  }
  return first != NULL;
}

void tn_suggest(const tn_stack *s, const tn_clash *clash, char *buf, size_t n)
{
  buf[0] = '\0';
  changes *list = tn_zalloc(1, sizeof *list);
  tn_stack *copy = malloc(sizeof *copy);
  search h = {.buf = buf, .n = n};
  bool ok = false;
  if (list && copy) {
    push_clash(s, list, clash);
    ok = single(s, list, copy, buf, n);
    for (uint32_t steps = 2; steps <= MAX_STEPS && !ok; steps++) ok = look(&h, s, clash, steps);
  }
  if (!ok) buf[0] = '\0';
  free(list);
  free(copy);
}
