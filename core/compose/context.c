/* context: is the context longer than what the model was trained for? Beyond it answers decay, unless the position plugin
 * stretches positions, or the eviction policy numbers the kept entries anew. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compose/compose_int.h"
#include "compose/tokens.h"
#include "config/section.h"
#include "loader/slot.h"

static const tn_choice *part_of_slot(const tn_stack *s, uint32_t slot)
{
  for (uint32_t i = 0; i < s->n; i++)
    if (s->part[i].slot == slot) return &s->part[i];
  return NULL;
}

/* Tokens of text that positions are good for. */
static int64_t reach(const tn_compose_model *m, const tn_choice *position)
{
  int64_t trained = m->shape->n_ctx_train, orig = m->n_ctx_orig > 0 ? m->n_ctx_orig : trained;
  if (!position || !tn_token_in(position->desc->provides, TN_TOKEN_STRETCH)) return trained;
  const tn_value *factor = tn_options_find(&position->options, "factor");
  if (!factor || factor->type != TN_T_F64 || factor->v.f <= 0) return trained;
  double n = (double)orig * factor->v.f;
  return n < 1e15 ? (int64_t)n : INT64_MAX;
}

/* A plugin with an option for a file may need one that is not there: no change of a line or two. */
static bool reads_files(const tn_desc *d)
{
  for (size_t i = 0; d->params && d->params[i]; i++)
    if (d->params[i]->type == TN_T_PATH) return true;
  return false;
}

/* Does the composition work with that position plugin, and does the plugin stretch by a factor alone? */
static bool stretches(const tn_stack *s, const char *name)
{
  const tn_compose_key *key = tn_compose_key_find("position");
  tn_stack *copy = malloc(sizeof *copy);
  bool ok = false;
  tn_choice p;
  if (copy && tn_choice_open(s, key, (tn_str){name, strlen(name)}, "", &p, NULL) == TN_OK) {
    tn_clash clash;
    *copy = *s;
    for (uint32_t i = 0; i < copy->n; i++)
      if (copy->part[i].slot == TN_SLOT_POSITION) copy->part[i] = p;
    ok = tn_token_in(p.desc->provides, TN_TOKEN_STRETCH) && !reads_files(p.desc) && tn_resolve(copy, &clash);
    tn_choice_close(&p);
  }
  free(copy);
  return ok;
}

/* The plugins that stretch, as "one", "one or two", "one, two or three"; n their number. */
static size_t stretching(const tn_stack *s, char *buf, size_t size)
{
  tn_names names = {0};
  size_t n = 0, at = 0, last = 0;
  buf[0] = '\0';
  if (s->catalog->names(s->catalog->ctx, TN_SLOT_POSITION, &names, NULL) != TN_OK) return 0;
  for (size_t i = 0; i < names.n && at + 80 < size; i++) {
    if (!stretches(s, names.at[i])) continue;
    last = at;
    at += (size_t)snprintf(buf + at, size - at, "%s%.63s", n ? ", " : "", names.at[i]);
    n++;
  }
  if (n > 1) { /* the last comma becomes a word */
    char name[64];
    snprintf(name, sizeof name, "%s", buf + last + 2);
    snprintf(buf + last, size - last, " or %s", name);
  }
  tn_names_free(&names);
  return n;
}

/* "; position = one with position.one.factor = 2 stretches positions that far", or "" */
static void change_words(const tn_stack *s, const tn_choice *now, int64_t factor, char *buf, size_t n)
{
  char names[256];
  size_t several;
  buf[0] = '\0';
  if (now && tn_token_in(now->desc->provides, TN_TOKEN_STRETCH))
    snprintf(buf, n, "; position.%s.factor = %" PRId64 " stretches positions that far", now->desc->name, factor);
  else if ((several = stretching(s, names, sizeof names)) > 1)
    snprintf(buf, n, "; position = %s with its factor = %" PRId64 " stretches positions that far", names, factor);
  else if (several)
    snprintf(buf, n, "; position = %s with position.%s.factor = %" PRId64 " stretches positions that far", names, names,
             factor);
}

tn_status tn_context_check(const tn_composition *c, tn_warnings *out, tn_err *err)
{
  const tn_stack *s = &c->stack;
  const tn_choice *position = part_of_slot(s, TN_SLOT_POSITION), *eviction = part_of_slot(s, TN_SLOT_EVICTION);
  int64_t ctx = c->host.opts.ctx;
  if (!s->model || s->model->shape->n_ctx_train == 0 || ctx <= reach(s->model, position)) return TN_OK;
  if (eviction && tn_token_in(eviction->desc->needs, TN_TOKEN_RENUMBER)) return TN_OK;
  const tn_config_entry *e = s->engine->from[TN_ENGINE_CTX];
  int64_t orig = s->model->n_ctx_orig > 0 ? s->model->n_ctx_orig : (int64_t)s->model->shape->n_ctx_train;
  char change[700];
  change_words(s, position, (ctx + orig - 1) / orig, change, sizeof change);
  return tn_warnings_add(out,
                         tn_asprintf("engine.ctx = %" PRId64
                                     " (%s): the model was trained for %u tokens; beyond them its answers get "
                                     "worse%s",
                                     ctx, e ? e->where : "default", s->model->shape->n_ctx_train, change),
                         err);
}
