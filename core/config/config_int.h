/* config_int: what config.c and config_load.c share. */
#ifndef TN_CORE_CONFIG_CONFIG_INT_H
#define TN_CORE_CONFIG_CONFIG_INT_H

#include "config/config.h"
#include "config/ini.h"

typedef struct tn_config_source { /* one file, or --set */
  char *path;                     /* as messages spell it; owned */
  char *id;                       /* of the file system; owned; NULL: a text or --set */
  char *dir;                      /* owned or NULL */
  uint32_t depth;
  bool open; /* being read now: an include of it is a cycle */
} tn_config_source;

struct tn_config {
  tn_config_fs fs;
  char *conf_dir; /* or NULL */
  tn_config_source *sources;
  size_t n_sources, cap_sources;
  tn_config_entry **entries; /* each one block: the struct, then its strings */
  size_t n_entries, cap_entries;
};

/* Appends; the caller has checked section and key. where is copied. Errors: TN_E_NOMEM, or TN_E_ARG for a key that the
 * same file has set before. */
tn_status tn_config_add(tn_config *c, const tn_ini_item *item, uint32_t source, const char *where, tn_err *err);

/* Takes over path, id and dir also when it fails. */
tn_status tn_config_add_source(tn_config *c, tn_config_source s, uint32_t *index, tn_err *err);

/* Are section and key ones that a configuration may have? TN_E_ARG with a sentence that lacks file and line. */
tn_status tn_config_check_names(const char *section, const char *key, tn_err *err);

#endif
