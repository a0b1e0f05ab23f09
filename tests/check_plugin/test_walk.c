/* The walk visits each thing that a module points to, by its name, and stops where it is told to. */
#include "check/walk.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <string.h>

static tn_status table(tn_inst *inst, const tn_rope_query *q, tn_rope_spec *out, tn_err *err)
{
  (void)inst, (void)q, (void)out, (void)err;
  return TN_OK;
}

static const char *const choices[] = {"one", "two"};
static const tn_param param = {.struct_size = sizeof param,
                               .type = TN_T_ENUM,
                               .n_choices = 2,
                               .key = "mode",
                               .help = "which",
                               .def = "one",
                               .choices = choices};
static const tn_param *const params[] = {&param, NULL};
static const char *const needs[] = {"a/1", "b/1", NULL};
static const tn_position_v1 vtable = {.struct_size = sizeof vtable, .table = table};
static const tn_desc desc = {.struct_size = sizeof desc,
                             .slot = TN_SLOT_POSITION,
                             .id = "x.y",
                             .name = "y",
                             .needs = needs,
                             .params = params,
                             .vtable = &vtable};
static const tn_desc *const descs[] = {&desc};
static const tn_module module = {.struct_size = sizeof module, .n_desc = 1, .name = "y", .desc = descs};

typedef struct seen {
  char text[4096];
  const char *stop; /* an object that is said to be unusable */
} seen;

static void add(seen *s, const char *kind, const char *what)
{
  size_t n = strlen(s->text);
  snprintf(s->text + n, sizeof s->text - n, "%s %s\n", kind, what);
}

static bool object(void *ctx, const char *what, const void *p, size_t n)
{
  seen *s = ctx;
  (void)p;
  if (n > 8) add(s, "o", what);
  return !s->stop || strcmp(s->stop, what) != 0;
}

static void string(void *ctx, const char *what, const char *text)
{
  (void)text;
  add(ctx, "s", what);
}

static void function(void *ctx, const char *what, const void *fn)
{
  (void)fn;
  add(ctx, "f", what);
}

static void walk(const tn_module *m, const char *stop, seen *s)
{
  *s = (seen){.stop = stop};
  tn_walk(m, &(tn_walker){s, object, string, function});
}

Test(walk, visits_everything_by_name)
{
  static seen s;
  walk(&module, NULL, &s);
  cr_expect(eq(str, s.text,
               "o module\ns module.name\no desc[0]\ns desc[0].id\ns desc[0].name\ns desc[0].needs[0]\n"
               "s desc[0].needs[1]\no desc[0].params[0]\ns desc[0].params[0].key\ns desc[0].params[0].help\n"
               "s desc[0].params[0].def\no desc[0].params[0]\ns desc[0].params[0].choices[0]\n"
               "s desc[0].params[0].choices[1]\no desc[0].vtable\nf desc[0].vtable.table\n"));
}

Test(walk, stops_at_what_cannot_be_used)
{
  static seen s;
  walk(&module, "desc[0]", &s);
  cr_expect(eq(str, s.text, "o module\ns module.name\n"));
  walk(&module, "desc[0].needs[1]", &s);
  cr_expect(strstr(s.text, "needs[1]") == NULL && strstr(s.text, "params[0]") != NULL, "%s", s.text);
}

Test(walk, does_not_look_behind_a_struct_that_says_it_is_smaller)
{
  static seen s;
  tn_desc small = desc;
  small.struct_size = 16;
  const tn_desc *const list[] = {&small};
  tn_module m = module;
  m.desc = list;
  walk(&m, NULL, &s);
  cr_expect(eq(str, s.text, "o module\ns module.name\n"));
}
