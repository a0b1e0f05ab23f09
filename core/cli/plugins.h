/* plugins: what the subcommands of `tenon plugins` share. Thread rule: the main thread. */
#ifndef TN_CORE_CLI_PLUGINS_H
#define TN_CORE_CLI_PLUGINS_H

#include "cli/cli.h"
#include "loader/loader.h"

int tn_cli_plugins_list(int argc, char **argv);
int tn_cli_plugins_info(int argc, char **argv);
int tn_cli_plugins_check(int argc, char **argv);
int tn_cli_plugins_matrix(int argc, char **argv);
int tn_cli_plugins_new(int argc, char **argv);

/* Descriptor, parameters, tokens and counters of a plugin, for people. */
void tn_cli_describe(const tn_plugin *p);

/* The same as a JSON object; the caller's. NULL: no memory. */
json_t *tn_cli_describe_json(const tn_plugin *p);

/* What `tenon plugins new` writes. */
typedef struct tn_scaffold {
  uint32_t slot, reserved0;
  const char *name; /* of the plugin */
  const char *from; /* folder of the texts, share/tenon/scaffold */
  const char *dir;  /* folder to write to; made if it is not there */
} tn_scaffold;

/* Writes the files of a new plugin; none that exists is touched. Errors: TN_E_ARG (no plugin name, a file is there
 * already), TN_E_IO, TN_E_NOMEM. */
tn_status tn_scaffold_write(const tn_scaffold *s, tn_err *err);

#endif
