/* loader_int: what the files of core/loader share. */
#ifndef TN_CORE_LOADER_LOADER_INT_H
#define TN_CORE_LOADER_LOADER_INT_H

#include "loader/loader.h"
#include "loader/note.h"
#include "loader/text.h"

/* A folder that is searched. */
typedef struct tn_dir {
  char *path;
  const char *from; /* "TN_PATH", "executable", "installation"; static */
} tn_dir;

/* A loaded file. Its handle is never closed, so it is not kept. */
typedef struct tn_file {
  char *path; /* canonical */
  uint64_t dev, ino;
  tn_notes notes;
  const tn_module *module;
} tn_file;

struct tn_loader {
  tn_dir *dirs;
  size_t n_dirs;
  tn_text ignored; /* entries of TN_PATH that are not searched, with the reason, joined by ", " */
  tn_text tried;   /* see tn_loader_tried */
  tn_file **files;
  size_t n_files;
  tn_plugin **plugins;
  size_t n_plugins;
  uint32_t isa; /* TN_ISA_* of the machine */
  void (*log)(void *ctx, int32_t level, const char *msg);
  void *ctx;
};

/* What a file says of itself before it is loaded. */
typedef struct tn_inspected {
  uint64_t dev, ino;
  tn_notes notes;
} tn_inspected;

/* Formats a message for the loader's log. */
void tn_loader_log(const tn_loader *l, int32_t level, const char *fmt, ...) TN_PRINTF(3, 4);

/* search.c: fills dirs and ignored. */
tn_status tn_loader_dirs_init(tn_loader *l, const tn_loader_cfg *cfg, tn_err *err);

/* search.c: the canonical path of the file that `want` names, into *path (free with free()). Adds to tried.
 * Errors: TN_E_ARG nothing of that name, with every file tried; TN_E_IO. */
tn_status tn_loader_locate(tn_loader *l, const tn_plugin_want *want, char **path, tn_err *err);

/* inspect.c: reads a file's headers and notes and checks each note against this machine. No code of it runs. */
tn_status tn_file_inspect(const char *path, uint32_t isa, tn_inspected *out, tn_err *err);

/* inspect.c: sha256 of a file as hex. */
tn_status tn_file_sha256(const char *path, char out[65], tn_err *err);

/* Where messages that a plugin logs in its entry go. */
typedef void (*tn_entry_log)(void *ctx, int32_t level, const char *msg);

/* open.c: dlopen and the entry call; nothing of what comes back is looked at. `path` is canonical. The module stays
 * valid for good. log may be NULL. */
tn_status tn_file_enter(const char *path, tn_entry_log log, void *log_ctx, const tn_module **module, tn_err *err);

/* open.c: tn_file_enter, then every rule of validate.h; the floating-point mode must not change. */
tn_status tn_file_load(const tn_loader *l, const char *path, const tn_notes *notes, const tn_module **module,
                       tn_err *err);

/* catalog.c: the name of any slot nearest to want's among the files of the search path, for "did you mean". Into
 * *near, free with free(); NULL when there is none. *slot is its slot. */
void tn_loader_nearest(tn_loader *l, const tn_plugin_want *want, char **near, uint32_t *slot);

#endif
