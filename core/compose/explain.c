/* explain: a composition as text for people. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compose/compose_int.h"
#include "compose/tokens.h"
#include "loader/slot.h"

char *tn_text_finish(FILE *f, char **text)
{
  bool ok = !ferror(f);
  if (fclose(f) != 0) ok = false;
  if (ok) return *text;
  free(*text);
  return NULL;
}

static void key_words(const tn_choice *p, char out[64])
{
  char range[32];
  tn_range_words(p, range);
  if (tn_is_range(p))
    snprintf(out, 64, TN_KEY_ATTENTION_LAYERS " %s", range);
  else
    snprintf(out, 64, "%s", p->key);
}

static void head(FILE *f, const tn_composition *c)
{
  char hex[TN_FINGERPRINT_HEX + 1];
  tn_composition_short(c, hex);
  fprintf(f, "fingerprint %s%s\n", hex, c->stack.model ? "" : " (without a model)");
}

typedef struct columns { /* of the summary, each as wide as its longest word */
  int key, name, id, version;
} columns;

static void widen_to(int *width, const char *word)
{
  if ((int)strlen(word) > *width) *width = (int)strlen(word);
}

static void widen(columns *w, const tn_choice *p)
{
  char key[64];
  key_words(p, key);
  widen_to(&w->key, key);
  widen_to(&w->name, p->desc->name);
  widen_to(&w->id, p->desc->id);
  widen_to(&w->version, p->desc->version);
}

char *tn_composition_summary(const tn_composition *c)
{
  char *text = NULL;
  size_t n;
  FILE *f = open_memstream(&text, &n);
  if (!f) return NULL;
  columns w = {0};
  for (uint32_t i = 0; i < c->stack.n; i++) widen(&w, &c->stack.part[i]);
  for (uint32_t i = 0; i < c->stack.n; i++) {
    const tn_choice *p = &c->stack.part[i];
    char key[64];
    key_words(p, key);
    fprintf(f, "%-*s = %-*s  %-*s %-*s  (%s)\n", w.key, key, w.name, p->desc->name, w.id, p->desc->id, w.version,
            p->desc->version, p->where);
  }
  head(f, c);
  return tn_text_finish(f, &text);
}

/* "attn.scores/1 attention scores per head <- backend = cpu" */
static void needs(FILE *f, const tn_composition *c, const tn_choice *p)
{
  const char *token;
  for (size_t k = 0; (token = tn_choice_need(p, k)); k++) {
    bool found;
    tn_side side = tn_resolve_giver(&c->stack, token, &found);
    const tn_token_info *info = tn_capability_find(token);
    char key[64] = "the host";
    const char *name = "";
    if (side.kind == TN_SIDE_PART) {
      key_words(&c->stack.part[side.index], key);
      name = c->stack.part[side.index].desc->name;
    }
    fprintf(f, "    needs     %s%s%s, from %s%s%s\n", token, info ? ": " : "", info ? info->phrase : "", key,
            *name ? " = " : "", name);
  }
}

static void list(FILE *f, const char *what, const char *const *tokens)
{
  for (size_t i = 0; tokens && tokens[i]; i++) fprintf(f, "%s%s", i ? " " : what, tokens[i]);
  if (tokens && tokens[0]) fputc('\n', f);
}

/* "seed = 0"; as wide as it is, a value too long for the columns pushes what follows to the next line. */
static int setting_words(const tn_fact *x, char out[160])
{
  int n = snprintf(out, 160, "%s = %s", x->param->key, *x->value ? x->value : "(none)");
  return n < 160 ? n : 159;
}

/* An option: setting, where it comes from, whether it matters for the tokens; then its help. */
static void option(FILE *f, const tn_fact *x, int where_width)
{
  enum { SETTING = 34 };
  char setting[160];
  int n = setting_words(x, setting);
  fprintf(f, "    %-*s", SETTING, setting);
  if (n > SETTING) fprintf(f, "\n    %-*s", SETTING, "");
  fprintf(f, " %-*s%s\n", x->output ? 0 : where_width, x->where ? x->where : "default",
          x->output ? "" : "  [does not change tokens]");
  if (x->param->help) fprintf(f, "        %s\n", x->param->help);
}

/* The options of part (TN_FACT_HOST: of the host that begin with prefix). */
static void options(FILE *f, const tn_facts *facts, uint32_t part, const char *prefix)
{
  int width = 0;
  for (int pass = 0; pass < 2; pass++) /* the first finds the widest origin of those that a note follows */
    for (size_t i = 0; i < facts->n; i++) {
      const tn_fact *x = &facts->at[i];
      if (x->part != part || x->is_part || strncmp(x->name, prefix, strlen(prefix)) != 0) continue;
      if (pass == 1)
        option(f, x, width);
      else if (!x->output)
        widen_to(&width, x->where ? x->where : "default");
    }
}

static void part(FILE *f, const tn_composition *c, const tn_facts *facts, uint32_t i)
{
  const tn_choice *p = &c->stack.part[i];
  char key[64];
  key_words(p, key);
  fprintf(f, "\n%s = %s\n", key, p->desc->name);
  fprintf(f, "    %s\n", p->desc->summary ? p->desc->summary : "");
  fprintf(f, "    plugin    %s %s, %s\n", p->desc->id, p->desc->version, p->plugin->path ? p->plugin->path : "");
  fprintf(f, "    set at    %s%s%s%s\n", p->where, p->why ? " (" : "", p->why ? p->why : "", p->why ? ")" : "");
  list(f, "    provides  ", p->desc->provides);
  needs(f, c, p);
  list(f, "    excludes  ", p->desc->conflicts);
  options(f, facts, i, "");
}

/* Keys that nothing fills. */
static void empty(FILE *f, const tn_composition *c)
{
  const tn_compose_key *key;
  const char *comma = "\nnot set: ";
  for (size_t i = 0; (key = tn_compose_key_at(i)); i++) {
    if (tn_composition_part(c, key->key)) continue;
    fprintf(f, "%s%s", comma, key->key);
    comma = ", ";
  }
  if (comma[0] == ',') fputc('\n', f);
}

char *tn_composition_explain(const tn_composition *c)
{
  char *text = NULL;
  size_t n;
  tn_facts facts;
  if (tn_facts_of(c, &facts)) return NULL;
  FILE *f = open_memstream(&text, &n);
  if (!f) {
    tn_facts_free(&facts);
    return NULL;
  }
  head(f, c);
  const char *file;
  for (size_t i = 0; (file = tn_config_file(c->stack.config, i)); i++) fprintf(f, "%s %s\n", i ? "    " : "read", file);
  for (uint32_t i = 0; i < c->stack.n; i++) part(f, c, &facts, i);
  empty(f, c);
  const tn_host_section *h;
  for (size_t i = 0; (h = tn_host_section_at(i)); i++) {
    char prefix[64];
    snprintf(prefix, sizeof prefix, "%s.", h->name);
    fprintf(f, "\n[%s]\n", h->name);
    options(f, &facts, TN_FACT_HOST, prefix);
  }
  tn_facts_free(&facts);
  return tn_text_finish(f, &text);
}
