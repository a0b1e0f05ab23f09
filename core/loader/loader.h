/* loader: finds plugin files, refuses what does not fit before any of its code runs, and keeps what was loaded.
 *
 * A plugin is <folder>/<slot>/<name>.so. Folders are searched in this order, and the first file that exists is the one
 * that counts: a file that is refused is an error, never a reason to look further.
 *   1 the path that the caller gives (INI key `path`), and nothing else in that case
 *   2 each absolute folder of TN_PATH (colon-separated; not read when the process runs with raised privileges)
 *   3 ../lib/tenon beside the real executable, in the build tree as in an installation
 *   4 the folder of the installation
 * The working directory and the model's folder are never searched.
 *
 * Checked before dlopen, on the file's bytes: ELF64 for this machine, segments inside the file, the note's ABI, slot,
 * id and instruction set, and the sha256 where one is given. Checked after: entry, module, descriptors (validate.h).
 * A file is loaded once, by device and inode; the same id in two files is refused. Nothing is ever unloaded: strings and
 * functions of a module stay valid until the process ends.
 *
 * One loader serves all engines of a process. Thread rule: one call at a time. */
#ifndef TN_CORE_LOADER_LOADER_H
#define TN_CORE_LOADER_LOADER_H

#include "base.h"
#include "loader/slot.h"

typedef struct tn_loader tn_loader;

typedef struct tn_loader_cfg { /* strings are copied; all zero is what the command uses */
  const char *path;            /* search path in place of the environment's TN_PATH; NULL: the environment's */
  const char *exe_dir;         /* folder of the executable; NULL: that of this process */
  const char *lib_dir;         /* plugin folder of the installation; NULL: as configured; "": none */
  uint32_t isa;                /* 1 + the highest TN_ISA_* of the machine; 0: ask the processor */
  uint32_t reserved0;
  void (*log)(void *ctx, int32_t level, const char *msg); /* TN_LOG_*; NULL: drop */
  void *ctx;
} tn_loader_cfg;

/* One descriptor of a loaded module. Owned by the loader, valid until tn_loader_free. */
typedef struct tn_plugin {
  const tn_desc *desc;
  const tn_module *module;
  const char *path; /* canonical */
  uint32_t isa;     /* TN_ISA_* of its note */
  uint32_t reserved0;
} tn_plugin;

/* What the caller asks for. */
typedef struct tn_plugin_want {
  uint32_t slot, reserved0;
  const char *name;   /* the word in the INI */
  const char *path;   /* absolute file, or NULL: search */
  const char *sha256; /* 64 hex digits that the file must have, or NULL */
  const char *min;    /* oldest version that will do, "1.2" or "1.2.3", or NULL */
} tn_plugin_want;

/* cfg NULL: all defaults. On success *out is the caller's, to be freed by tn_loader_free.
 * Errors: TN_E_NOMEM; TN_E_IO when the executable's own path cannot be read. */
tn_status tn_loader_new(const tn_loader_cfg *cfg, tn_loader **out, tn_err *err);

/* Calls shutdown() of every loaded module; their instances must be gone. Accepts NULL. */
void tn_loader_free(tn_loader *);

/* Finds, checks and loads one plugin; a second call gives the same one. *out is the loader's.
 * Errors: TN_E_ARG (unknown slot, name not as written in an INI, path not absolute, nothing of that name: every file
 * tried is named), TN_E_IO (unreadable, dlopen failed: with the text of dlerror), TN_E_VERSION (ABI, instruction set,
 * version too old, digest), TN_E_UNSUPPORTED (breaks a rule of the contract), TN_E_NOMEM. */
tn_status tn_loader_open(tn_loader *, uint32_t slot, const char *name, const char *path, const tn_plugin **out,
                         tn_err *err);
tn_status tn_loader_open_want(tn_loader *, const tn_plugin_want *want, const tn_plugin **out, tn_err *err);

/* Every file that the last open looked at, one a line with the reason it was not taken: the long form of what the
 * error says in short. Borrowed until the next call on the loader. */
const char *tn_loader_tried(const tn_loader *);

/* All descriptors loaded so far, in order of loading. */
size_t tn_loader_count(const tn_loader *);
const tn_plugin *tn_loader_at(const tn_loader *, size_t i);

/* sha256 of the plugin's file as 64 hex digits. Errors: TN_E_IO. */
tn_status tn_plugin_sha256(const tn_plugin *, char out[65], tn_err *err);

/* ---------------------------------------------------------------- the catalogue */

/* A plugin file on the search path, known by its note; none of its code has run. */
typedef struct tn_found {
  uint32_t slot;     /* of its folder */
  uint32_t shadowed; /* 1: a folder searched earlier has this slot and name */
  const char *name;  /* of the file, without .so */
  const char *path;
  const char *id;      /* from the note; "" when there is a problem */
  const char *problem; /* why it would be refused, NULL: nothing known yet */
} tn_found;

typedef struct tn_found_list {
  tn_found *at; /* [n] by slot, then in order of the search, then by name */
  size_t n;
} tn_found_list;

/* Lists every file <folder>/<slot>/<name>.so of the search path. *out is the caller's (tn_found_list_free).
 * Errors: TN_E_NOMEM; folders that cannot be read are skipped and logged. */
tn_status tn_loader_scan(tn_loader *, tn_found_list *out, tn_err *err);
void tn_found_list_free(tn_found_list *);

/* The folders of the search path in order, each with where it comes from: "TN_PATH", "executable", "installation". */
size_t tn_loader_n_dirs(const tn_loader *);
const char *tn_loader_dir(const tn_loader *, size_t i, const char **from);

#endif
