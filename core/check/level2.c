/* level2: the descriptor. The rules are the loader's own (validate.h), so what passes here loads. */
#include "check/level2.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "check/probe.h"
#include "loader/slot.h"
#include "utf8.h"

/* ---- every pointer readable */

typedef struct reader {
  tn_check *check; /* NULL: only count */
  tn_probe probe;
  uint32_t bad;
} reader;

static bool readable_object(void *ctx, const char *what, const void *p, size_t n)
{
  reader *r = ctx;
  if (tn_probe_read(&r->probe, p, n)) return true;
  r->bad++;
  if (r->check) tn_check_say(r->check, TN_CHECK_FAIL, "%s: %zu bytes at %p cannot be read", what, n, p);
  return false;
}

static void readable_string(void *ctx, const char *what, const char *s)
{
  reader *r = ctx;
  long n = tn_probe_string(&r->probe, s, TN_TEXT_MAX);
  if (n >= 0) return;
  r->bad++;
  if (r->check && n == -1)
    tn_check_say(r->check, TN_CHECK_FAIL, "%s: the string at %p cannot be read", what, (const void *)s);
  else if (r->check)
    tn_check_say(r->check, TN_CHECK_FAIL, "%s: no end of the string within %u bytes", what, TN_TEXT_MAX);
}

/* Number of pointers that cannot be followed; each is said when `say`. */
static uint32_t unreadable(tn_check *c, bool say)
{
  reader r = {.check = say ? c : NULL};
  if (!tn_probe_open(&r.probe)) return 0;
  tn_walk(c->module, &(tn_walker){&r, readable_object, readable_string, NULL});
  tn_probe_close(&r.probe);
  return r.bad;
}

static void pointers(tn_check *c)
{
  if (tn_check_enter(c)) unreadable(c, true);
}

bool tn_check_readable(tn_check *c)
{
  if (!tn_check_enter(c)) return false;
  if (unreadable(c, false) == 0) return true;
  tn_check_say(c, TN_CHECK_SKIP, "points to memory that is not there, see TN-L2-01");
  return false;
}

/* ---- strings */

static void utf8_string(void *ctx, const char *what, const char *s)
{
  size_t n = strlen(s), good = tn_utf8_valid(s, n);
  if (good != n) tn_check_say(ctx, TN_CHECK_FAIL, "%s is not UTF-8 at byte %zu", what, good);
}

static void strings(tn_check *c)
{
  if (tn_check_readable(c)) tn_walk(c->module, &(tn_walker){.ctx = c, .string = utf8_string});
}

/* ---- the loader's rules */

static void module(tn_check *c)
{
  tn_err err = tn_err_init();
  if (tn_check_readable(c) && tn_validate_module(c->module, &err) != TN_OK)
    tn_check_say(c, TN_CHECK_FAIL, "%s", err.msg);
}

bool tn_check_before_rule(tn_check *c, tn_status (*rule)(const tn_desc *, tn_err *))
{
  size_t n;
  const tn_desc_rule *rules = tn_desc_rules(&n);
  if (!tn_check_readable(c)) return false;
  if (tn_validate_module(c->module, NULL) != TN_OK) {
    tn_check_say(c, TN_CHECK_SKIP, "its module is not right, see TN-L2-03");
    return false;
  }
  for (size_t i = 0; i < n && rules[i].check != rule; i++)
    for (uint32_t k = 0; k < c->module->n_desc; k++)
      if (rules[i].check(c->module->desc[k], NULL) != TN_OK && (rules[i].basic || !rule)) {
        tn_check_say(c, TN_CHECK_SKIP, "its %s are not right", rules[i].name);
        return false;
      }
  return true;
}

static void each_desc(tn_check *c, tn_status (*rule)(const tn_desc *, tn_err *))
{
  if (!tn_check_before_rule(c, rule)) return;
  for (uint32_t i = 0; i < c->module->n_desc; i++) {
    tn_err err = tn_err_init();
    if (rule(c->module->desc[i], &err) != TN_OK) tn_check_say(c, TN_CHECK_FAIL, "%s", err.msg);
  }
}

static void sizes(tn_check *c) { each_desc(c, tn_rule_sizes); }
static void reserved(tn_check *c) { each_desc(c, tn_rule_reserved); }
static void words(tn_check *c) { each_desc(c, tn_rule_words); }
static void hooks(tn_check *c) { each_desc(c, tn_rule_hooks); }
static void tokens(tn_check *c) { each_desc(c, tn_rule_tokens); }
static void params(tn_check *c) { each_desc(c, tn_rule_params); }

static void counters(tn_check *c)
{
  each_desc(c, tn_rule_counters);
  for (uint32_t i = 0; c->verdict == TN_CHECK_PASS && i < c->module->n_desc; i++)
    if (tn_list_len(c->module->desc[i]->counters) == 0)
      tn_check_say(c, TN_CHECK_WARN, "descriptor '%s' has no counter: nobody can see whether it did anything",
                   c->module->desc[i]->id);
}

/* ---- names, notes */

/* A descriptor is found by its file's name: one of them has it. */
static void named_as_file(tn_check *c)
{
  if (!tn_check_before_rule(c, NULL)) return;
  const char *slash = strrchr(c->path, '/');
  size_t n = strcspn(slash + 1, ".");
  for (uint32_t i = 0; i < c->module->n_desc; i++) {
    const char *name = c->module->desc[i]->name;
    if (strlen(name) == n && strncmp(name, slash + 1, n) == 0) return;
  }
  tn_check_say(c, TN_CHECK_FAIL, "the file is named '%s', its descriptor '%s'", slash + 1, c->module->desc[0]->name);
}

static void note_is_descriptor(tn_check *c)
{
  tn_notes notes;
  tn_err err = tn_err_init();
  if (tn_check_before_rule(c, NULL) && tn_check_notes(c, &notes) && tn_validate_notes(c->module, &notes, &err) != TN_OK)
    tn_check_say(c, TN_CHECK_FAIL, "%s", err.msg);
}

/* ---- functions and tables */

typedef struct place {
  tn_check *check;
  const void *base; /* load address of the plugin */
} place;

static bool find_place(tn_check *c, place *out)
{
  Dl_info info;
  void *handle = dlopen(c->path, RTLD_NOW | RTLD_NOLOAD);
  void *entry = handle ? dlsym(handle, TN_ENTRY_SYMBOL) : NULL;
  if (!entry || !dladdr(entry, &info)) return false;
  *out = (place){c, info.dli_fbase};
  return true;
}

static void own_code(void *ctx, const char *what, const void *fn)
{
  place *p = ctx;
  char rights[5];
  Dl_info info;
  if (!tn_probe_rights(fn, rights))
    tn_check_say(p->check, TN_CHECK_FAIL, "%s: there is no memory at %p", what, fn);
  else if (rights[2] != 'x')
    tn_check_say(p->check, TN_CHECK_FAIL, "%s: the memory at %p is no code (%s)", what, fn, rights);
  else if (!dladdr(fn, &info) || info.dli_fbase != p->base)
    tn_check_say(p->check, TN_CHECK_FAIL, "%s: %p is no function of this plugin", what, fn);
}

static void functions(tn_check *c)
{
  place p;
  if (tn_check_readable(c) && find_place(c, &p)) tn_walk(c->module, &(tn_walker){.ctx = &p, .function = own_code});
}

static bool constant_object(void *ctx, const char *what, const void *obj, size_t n)
{
  char rights[5];
  bool head = n == sizeof(uint32_t); /* of a struct that comes again as a whole */
  if (!head && tn_probe_rights(obj, rights) && rights[1] == 'w')
    tn_check_say(ctx, TN_CHECK_WARN, "%s is in writable memory: declare it const", what);
  return true;
}

static void constant_tables(tn_check *c)
{
  if (tn_check_readable(c)) tn_walk(c->module, &(tn_walker){.ctx = c, .object = constant_object});
}

static void origin(tn_check *c)
{
  if (!tn_check_before_rule(c, NULL)) return;
  const tn_module *m = c->module;
  if (!m->vendor || !*m->vendor) tn_check_say(c, TN_CHECK_WARN, "tn_module.vendor is empty: who answers for it?");
  if (!m->license || !*m->license) tn_check_say(c, TN_CHECK_WARN, "tn_module.license is empty: may it be used?");
  if (!m->build || !*m->build) tn_check_say(c, TN_CHECK_WARN, "tn_module.build is empty: which build is it?");
}

const tn_check_test tn_check_level2[] = {
    {"TN-L2-01", 2, TN_CHECK_GATE_NONE, "every pointer of module and descriptors can be followed", pointers},
    {"TN-L2-02", 2, TN_CHECK_GATE_NONE, "every string is UTF-8", strings},
    {"TN-L2-03", 2, TN_CHECK_GATE_NONE, "module: size, ABI, version and descriptors", module},
    {"TN-L2-04", 2, TN_CHECK_GATE_NONE, "struct_size and slot version of descriptor, vtable and parameters", sizes},
    {"TN-L2-05", 2, TN_CHECK_GATE_NONE, "reserved words are 0 and unknown flags unset", reserved},
    {"TN-L2-06", 2, TN_CHECK_GATE_NONE, "id, name, version and summary are well formed", words},
    {"TN-L2-07", 2, TN_CHECK_GATE_NONE, "every function that the slot needs is there", hooks},
    {"TN-L2-08", 2, TN_CHECK_GATE_NONE, "every function is code of this plugin", functions},
    {"TN-L2-09", 2, TN_CHECK_GATE_NONE, "tokens are well formed, each once, none both needed and in conflict", tokens},
    {"TN-L2-10", 2, TN_CHECK_GATE_NONE, "parameters: keys, types, ranges and defaults", params},
    {"TN-L2-11", 2, TN_CHECK_GATE_NONE, "counters: one at least, each name once", counters},
    {"TN-L2-12", 2, TN_CHECK_GATE_NONE, "a descriptor has the file's name", named_as_file},
    {"TN-L2-13", 2, TN_CHECK_GATE_NONE, "note and descriptor say the same id and slot", note_is_descriptor},
    {"TN-L2-14", 2, TN_CHECK_GATE_NONE, "the same answer when asked again", tn_check_repeat},
    {"TN-L2-15", 2, TN_CHECK_GATE_NONE, "the same answer to 8 threads", tn_check_threads},
    {"TN-L2-16", 2, TN_CHECK_GATE_NONE, "an unknown extension is NULL, and so is a known one with a tail",
     tn_check_extensions},
    {"TN-L2-17", 2, TN_CHECK_GATE_NONE, "module and descriptors are constant", constant_tables},
    {"TN-L2-18", 2, TN_CHECK_GATE_NONE, "vendor, licence and build are named", origin},
    {NULL, 0, 0, NULL, NULL},
};
