/* setup: what every subcommand that needs a composition does first: INI files and --set, the loader, the model, the
 * composition. Thread rule: the main thread. */
#ifndef TN_CORE_CLI_SETUP_H
#define TN_CORE_CLI_SETUP_H

#include "compose/compose.h"

typedef struct tn_cli_setup_args {
  const char *command;      /* for what is printed to stderr */
  const char *const *files; /* [n_files]; none: default.ini of the installation */
  size_t n_files;
  const char *const *sets; /* [n_sets] "section.key=value" */
  size_t n_sets;
  tn_loader *loader;       /* borrowed: one serves the process */
  bool without_model;      /* the model is not opened even if there is one */
  bool needs_model;        /* [model] path has to be set */
  tn_progress_fn progress; /* opening the model; NULL: none */
  void *progress_ctx;
} tn_cli_setup_args;

typedef struct tn_cli_setup {
  tn_config *config;
  tn_catalog catalog;
  tn_model *model; /* NULL: none */
  tn_composition *composition;
} tn_cli_setup;

/* Prints the composition's warnings to stderr. On failure *out is empty and *err has the sentence. */
tn_status tn_cli_setup_open(const tn_cli_setup_args *args, tn_cli_setup *out, tn_err *err);
void tn_cli_setup_close(tn_cli_setup *s);

/* A loader that prints warnings and errors to stderr. */
tn_status tn_cli_loader(tn_loader **out, tn_err *err);

#endif
