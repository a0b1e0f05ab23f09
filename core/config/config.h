/* config: what INI files and --set say, before it is known which plugins there are.
 *
 * A file begins with its includes (`include = other.ini`, resolved from the file's own folder, then from the folder of
 * the installation's configurations); what follows overrides them. A file that several files include is read once,
 * where it comes first. Several files and --set on the command line override what stands before them. A key may stand
 * once in a section of one file. An empty value takes back a key that was set before; so does "-" in [compose].
 *
 * Every entry keeps where it stands. Thread rule: one thread builds a config; then any thread may read it. */
#ifndef TN_CORE_CONFIG_CONFIG_H
#define TN_CORE_CONFIG_CONFIG_H

#include "base.h"

enum {
  TN_CONFIG_MAX_DEPTH = 16,     /* includes within includes */
  TN_CONFIG_MAX_FILE = 1 << 20, /* bytes of one file */
  TN_CONFIG_MAX_FILES = 256
};

typedef struct tn_config tn_config;

typedef struct tn_config_entry {
  const char *section, *key, *value;
  const char *where; /* "conf/a.ini:12", "--set engine.threads=2" or "-t 2" */
  const char *dir;   /* folder that a relative path in value starts from; NULL: the working directory */
  uint32_t kind;     /* TN_SECTION_* */
  uint32_t slot;     /* of a plugin's section */
  uint32_t depth;    /* 0: of a file named by the user, or --set; else it was included */
  uint32_t file;     /* number of the file, of --set alike */
} tn_config_entry;

/* Where files come from. Tests and fuzzing bring their own. */
typedef struct tn_config_fs {
  void *ctx;
  /* The whole file, and an id that is equal for two paths to one file. Both are the caller's, to be freed by free().
   * Errors: TN_E_IO with *err filled: there is no such file; anything else: it cannot be used. */
  tn_status (*read)(void *ctx, const char *path, char **id, char **bytes, size_t *n, tn_err *err);
} tn_config_fs;

/* Empty. fs and conf_dir may be NULL: the file system, no folder of the installation; both are copied.
 * NULL: no memory. Free with tn_config_free. */
tn_config *tn_config_new(const tn_config_fs *fs, const char *conf_dir);
void tn_config_free(tn_config *c);

/* Reads a file and what it includes. Errors: TN_E_ARG (with file:line), TN_E_IO, TN_E_NOMEM. After an error the config
 * may only be freed. */
tn_status tn_config_load(tn_config *c, const char *path, tn_err *err);

/* The same for a text that is no file; includes resolve from the working directory. */
tn_status tn_config_load_text(tn_config *c, const char *name, const char *text, size_t n, tn_err *err);

/* One --set: "section.key=value", as in "compose.draft=ngram", "engine.threads=2", "quantizer.int8@kv.group=64". */
tn_status tn_config_set(tn_config *c, const char *assignment, tn_err *err);

/* The same for an option of the command line that stands for a --set: where is what the user wrote, "-c 4096". */
tn_status tn_config_set_from(tn_config *c, const char *assignment, const char *where, tn_err *err);

/* The entry in force for a key of a section: the last one, unless it is empty. NULL: none. Borrowed. */
const tn_config_entry *tn_config_get(const tn_config *c, const char *section, const char *key);

/* All entries in the order read, overridden ones too. NULL past the end. */
const tn_config_entry *tn_config_at(const tn_config *c, size_t i);

/* Files read, in the order of their first line. NULL past the end. */
const char *tn_config_file(const tn_config *c, size_t i);

/* A file of the installation's configurations, found as an include of that name would be. *path is its path, *bytes its
 * text, both the caller's (free()). Errors: TN_E_IO (there is none, or no such folder), TN_E_ARG, TN_E_NOMEM. */
tn_status tn_config_conf_file(const tn_config *c, const char *name, char **path, char **bytes, size_t *n, tn_err *err);

/* path, without a leading ./, as seen from dir (NULL: the working directory); an absolute one stays. Free with free();
 * NULL: no memory. */
char *tn_path_from(const char *dir, const char *path);

/* A whole regular file of at most max bytes, NUL-terminated (not counted in *n). *bytes is the caller's (free()).
 * Errors: TN_E_IO (there is none, or it cannot be read), TN_E_ARG (too large, or no regular file), TN_E_NOMEM. */
tn_status tn_file_read(const char *path, size_t max, char **bytes, size_t *n, tn_err *err);

#endif
