/* options: the values of one table of options, from a config: parsed, range-checked, defaulted, each with its origin.
 *
 * Thread rule: any thread; a config is only read. */
#ifndef TN_CORE_CONFIG_OPTIONS_H
#define TN_CORE_CONFIG_OPTIONS_H

#include "config/config.h"

typedef struct tn_options {
  const tn_param *const *params; /* [n], borrowed */
  uint32_t n;
  tn_value *values;             /* [n], values[i] belongs to params[i] */
  const tn_config_entry **from; /* [n] where it was set; NULL: the default. Borrowed from the config */
} tn_options;

typedef struct tn_options_want {
  const char *section;           /* "quantizer.int8" */
  const char *special;           /* "quantizer.int8@kv": goes before section, key by key; NULL: none */
  const tn_param *const *params; /* NULL-terminated, or NULL: none */
  bool plugin;                   /* path, sha256 and min are keys of the loader */
} tn_options_want;

/* Errors: TN_E_ARG, "file:line: [section] ...", for a key that the table lacks (with the nearest one), a value that it
 * does not allow, or a required option that is not set; TN_E_NOMEM. On failure *out is empty. */
tn_status tn_options_read(const tn_config *c, const tn_options_want *want, tn_options *out, tn_err *err);
void tn_options_free(tn_options *o);

/* The same complaints about keys and values that are set in the section called w->section alone, and none about what is
 * missing: for a section whose plugin is not in use. */
tn_status tn_options_check(const tn_config *c, const tn_options_want *w, tn_err *err);

/* The value of the option with this key, or NULL. */
const tn_value *tn_options_find(const tn_options *o, const char *key);

/* Is it a key that the loader reads in every plugin's section? */
bool tn_option_reserved(const char *key);

#endif
