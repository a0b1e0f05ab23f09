/* plugins_describe: what a plugin says of itself, as text and as JSON. */
#include <stdlib.h>
#include <string.h>

#include "cli/plugins.h"
#include "compose/tokens.h"
#include "config/param.h"
#include "config/section.h"
#include "loader/note.h"

/* Names of set bits, in the order of the bits. */
typedef struct flag_name {
  uint32_t bit;
  const char *name;
} flag_name;

static const flag_name desc_flags[] = {{TN_F_DETERMINISTIC, "deterministic"}, {TN_F_EXACT, "exact"}};
static const flag_name param_flags[] = {{TN_P_REQUIRED, "required"},
                                        {TN_P_RUNTIME, "runtime"},
                                        {TN_P_OUTPUT, "output"},
                                        {TN_P_REQUEST, "request"},
                                        {TN_P_DEPRECATED, "deprecated"}};
static const char *const type_names[] = {"?", "bool", "i64", "f64", "string", "enum", "bytes", "path", "f64 list"};

static const char *or_dash(const char *s) { return s && *s ? s : "-"; }

/* ---- text */

static void print_list(const char *what, const char *const *list)
{
  printf("  %-12s", what);
  if (!list || !list[0]) printf(" -");
  for (; list && *list; list++) printf(" %s", *list);
  putchar('\n');
}

/* The same with what each token stands for, one a line. */
static void print_tokens(const char *what, const char *const *list)
{
  if (!list || !list[0]) printf("  %-12s -\n", what);
  for (size_t i = 0; list && list[i]; i++) {
    const tn_token_info *info = tn_capability_find(list[i]);
    printf("  %-12s %s%s%s\n", i ? "" : what, list[i], info ? ": " : "", info ? info->phrase : "");
  }
}

/* "[compose] weights, kv or demote = int8": where a composition names it. */
static void print_use(const tn_desc *d)
{
  const char *keys[16];
  size_t n = 0;
  const tn_compose_key *k;
  for (size_t i = 0; (k = tn_compose_key_at(i)); i++)
    if (k->slot == d->slot && n < TN_ARRAY_LEN(keys)) keys[n++] = k->key;
  printf("  %-12s [compose] ", "use");
  for (size_t i = 0; i < n; i++) printf("%s%s", i == 0 ? "" : i + 1 < n ? ", " : " or ", keys[i]);
  printf(" = %s\n", d->name);
}

static void print_claims(uint32_t flags)
{
  const char *exact = flags & TN_F_EXACT
                          ? "exact (the tokens of the baseline: full attention, plain rope, f16 cache, no draft)"
                          : "may change tokens";
  printf("  %-12s %s%s\n", "claims", exact,
         flags & TN_F_DETERMINISTIC ? "; deterministic (the same input, the same bits)" : "");
}

/* Which functions of the vtable are there, and which it does without. */
static void print_hooks(const tn_desc *d)
{
  size_t n;
  uint32_t size;
  const tn_hook *hooks = tn_slot_hooks(d->slot, &n, &size);
  printf("  %-12s", "functions");
  for (int there = 1; there >= 0; there--) {
    bool first = true;
    for (size_t i = 0; i < n; i++) {
      void (*fn)(void);
      memcpy(&fn, (const char *)d->vtable + hooks[i].offset, sizeof fn);
      if ((fn != NULL) != (there == 1)) continue;
      printf("%s%s", first && !there ? "; without " : " ", hooks[i].name);
      first = false;
    }
  }
  putchar('\n');
}

/* The default as a value is shown elsewhere. Free with free(). */
static char *default_words(const tn_param *p)
{
  tn_value v;
  if (!p->def) return tn_strdup("required");
  if (tn_param_default(p, &v, NULL) != TN_OK) return tn_strdup(p->def);
  char *text = tn_param_render(p, &v), *words = text ? tn_asprintf("default %s", *text ? text : "none") : NULL;
  free(text);
  tn_value_free(&v);
  return words;
}

static void print_param(const tn_param *p)
{
  static const flag_name shown[] = {{TN_P_OUTPUT, "changes tokens"},
                                    {TN_P_RUNTIME, "can be set while running"},
                                    {TN_P_REQUEST, "can differ by request"},
                                    {TN_P_DEPRECATED, "deprecated"}};
  char *range = tn_param_range(p), *otherwise = default_words(p);
  printf("    %-16s %s\n", p->key, p->help);
  printf("    %-16s %s; %s", "", range ? range : type_names[p->type], otherwise ? otherwise : "");
  for (size_t i = 0; i < TN_ARRAY_LEN(shown); i++)
    if (p->flags & shown[i].bit) printf("; %s", shown[i].name);
  putchar('\n');
  free(range);
  free(otherwise);
}

void tn_cli_describe(const tn_plugin *p)
{
  const tn_desc *d = p->desc;
  char sha256[65] = "?";
  tn_plugin_sha256(p, sha256, NULL);
  printf("%s %s, %s: %s\n\n", d->name, d->version, tn_slot_name(d->slot), d->summary);
  print_use(d);
  print_claims(d->flags);
  print_tokens("needs", d->needs);
  print_tokens("conflicts", d->conflicts);
  print_tokens("provides", d->provides);
  printf("  options of [%s.%s]%s\n", tn_slot_name(d->slot), d->name, d->params && d->params[0] ? "" : ": none");
  for (const tn_param *const *q = d->params; q && *q; q++) print_param(*q);
  printf("\n  %-12s %s\n", "id", d->id);
  printf("  %-12s %s\n", "file", p->path);
  printf("  %-12s %s\n", "sha256", sha256);
  printf("  %-12s %s %s, %s, %s, build %s\n", "module", p->module->name, p->module->version, or_dash(p->module->vendor),
         or_dash(p->module->license), or_dash(p->module->build));
  printf("  %-12s plugin ABI %u.%u, %s version %u, instruction set %s\n", "contract", p->module->abi_major,
         p->module->abi_minor, tn_slot_name(d->slot), d->slot_version, tn_isa_name(p->isa));
  print_list("counters", d->counters);
  print_hooks(d);
}

/* ---- JSON */

static json_t *list_json(const char *const *list)
{
  json_t *j = json_array();
  for (; j && list && *list; list++) json_array_append_new(j, json_string(*list));
  return j;
}

static json_t *flags_json(const flag_name *names, size_t n, uint32_t flags)
{
  json_t *j = json_array();
  for (size_t i = 0; j && i < n; i++)
    if (flags & names[i].bit) json_array_append_new(j, json_string(names[i].name));
  return j;
}

static json_t *param_json(const tn_param *p)
{
  json_t *j =
      json_pack("{ss ss ss? ss? ss so}", "key", p->key, "help", p->help, "unit", p->unit, "default", p->def, "type",
                type_names[p->type], "flags", flags_json(param_flags, TN_ARRAY_LEN(param_flags), p->flags));
  if (!j) return NULL;
  if (p->type == TN_T_I64 || p->type == TN_T_BYTES) {
    json_object_set_new(j, "min", json_integer(p->imin));
    json_object_set_new(j, "max", json_integer(p->imax));
  } else if (p->type == TN_T_F64 || p->type == TN_T_F64_LIST) {
    json_object_set_new(j, "min", json_real(p->fmin));
    json_object_set_new(j, "max", json_real(p->fmax));
  } else if (p->type == TN_T_ENUM) {
    json_t *choices = json_array();
    for (uint32_t i = 0; i < p->n_choices; i++) json_array_append_new(choices, json_string(p->choices[i]));
    json_object_set_new(j, "choices", choices);
  }
  return j;
}

json_t *tn_cli_describe_json(const tn_plugin *p)
{
  const tn_desc *d = p->desc;
  char sha256[65] = "";
  tn_plugin_sha256(p, sha256, NULL);
  json_t *params = json_array();
  for (const tn_param *const *q = d->params; params && q && *q; q++) json_array_append_new(params, param_json(*q));
  json_t *module = json_pack("{ss ss ss? ss? ss?}", "name", p->module->name, "version", p->module->version, "vendor",
                             p->module->vendor, "license", p->module->license, "build", p->module->build);
  return json_pack("{ss ss ss ss ss ss ss si si so so so so so so so}", "slot", tn_slot_name(d->slot), "name", d->name,
                   "id", d->id, "version", d->version, "summary", d->summary, "path", p->path, "sha256", sha256,
                   "abi_major", (int)p->module->abi_major, "abi_minor", (int)p->module->abi_minor, "claims",
                   flags_json(desc_flags, TN_ARRAY_LEN(desc_flags), d->flags), "provides", list_json(d->provides),
                   "needs", list_json(d->needs), "conflicts", list_json(d->conflicts), "counters",
                   list_json(d->counters), "params", params, "module", module);
}
