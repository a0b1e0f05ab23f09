/* builder_help: see builder_help.h. */
#include "builder_help.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <string.h>

fixture fixture_open(const tiny_spec *spec)
{
  fixture f = {0};
  f.model = tiny_open(spec, &f.bytes);
  f.groups = tiny_groups(f.model, 0, f.model->shape.n_kv_heads, TN_DT_F16, &f.n_groups);
  return f;
}

void fixture_close(fixture *f)
{
  tiny_groups_free(f->groups, f->n_groups);
  tn_model_close(f->model);
  free(f->bytes);
}

tn_build fixture_build(const fixture *f)
{
  return (tn_build){.model = f->model, .groups = (const tn_kv_group *const *)f->groups, .n_groups = f->n_groups};
}

tn_built *must_build(const tn_build *in)
{
  tn_err err = tn_err_init();
  tn_built *b = NULL;
  cr_assert(tn_program_build(in, &b, &err) == TN_OK, "%s", err.msg);
  return b;
}

void expect_golden(const tn_build *in, const char *name)
{
  tn_built *b = must_build(in);
  char *differs = program_golden(b, name);
  cr_expect(differs == NULL, "%s", differs);
  free(differs);
  tn_built_free(b);
}

void expect_refused(const tn_build *in, tn_status st, const char *says)
{
  tn_err err = tn_err_init();
  tn_built *b = NULL;
  cr_expect(tn_program_build(in, &b, &err) == st, "want %s, got %s: %s", says, tn_status_name(err.code), err.msg);
  cr_expect(b == NULL);
  cr_expect(err.code == st);
  cr_expect(strstr(err.msg, says) != NULL, "want '%s', got '%s'", says, err.msg);
  tn_built_free(b);
}
