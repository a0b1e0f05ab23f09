/* compose_open: a composition for commands that need no engine: INI files and --set, the loader, the model if one is
 * named, the composition. Thread rule: the main thread. */
#ifndef TN_CORE_CLI_COMPOSE_OPEN_H
#define TN_CORE_CLI_COMPOSE_OPEN_H

#include "compose/compose.h"

typedef struct tn_cli_open_args {
  const char *command;      /* for what is printed to stderr */
  const char *const *files; /* [n_files]; none: default.ini of the installation */
  size_t n_files;
  const char *const *sets; /* [n_sets] "section.key=value" */
  size_t n_sets;
  tn_loader *loader;       /* borrowed: one serves the process */
  const char *model;       /* over [model] path; NULL: that path */
  bool without_model;      /* the model is not opened even if there is one */
  tn_progress_fn progress; /* opening the model; NULL: none */
  void *progress_ctx;
} tn_cli_open_args;

typedef struct tn_cli_composed {
  tn_config *config;
  tn_catalog catalog;
  tn_model *model; /* NULL: none */
  tn_composition *composition;
} tn_cli_composed;

/* Prints the composition's warnings to stderr. On failure *out is empty and *err has the sentence. */
tn_status tn_cli_compose_open(const tn_cli_open_args *args, tn_cli_composed *out, tn_err *err);
void tn_cli_compose_close(tn_cli_composed *s);

/* A loader that prints warnings and errors to stderr. */
tn_status tn_cli_loader(tn_loader **out, tn_err *err);

#endif
