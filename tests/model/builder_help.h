/* builder_help: a tiny model with its KV groups, and programs of it. */
#ifndef TN_TESTS_MODEL_BUILDER_HELP_H
#define TN_TESTS_MODEL_BUILDER_HELP_H

#include "model/builder.h"
#include "support/program_text.h"
#include "support/tiny_model.h"

typedef struct fixture {
  void *bytes;
  tn_model *model;
  tn_kv_group **groups;
  uint32_t n_groups;
} fixture;

/* A model with one KV group a class, of all heads. */
fixture fixture_open(const tiny_spec *spec);
void fixture_close(fixture *f);

/* The fixture's model and groups, nothing else. */
tn_build fixture_build(const fixture *f);

/* Builds, or ends the test with the reason. */
tn_built *must_build(const tn_build *in);

/* Builds and compares with <name>.golden. */
void expect_golden(const tn_build *in, const char *name);

/* Fails with st and a message that holds says. */
void expect_refused(const tn_build *in, tn_status st, const char *says);

#endif
