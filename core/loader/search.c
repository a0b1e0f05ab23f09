/* search: where plugin files are looked for, in which order, and what is said when there is none. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "loader/loader_int.h"

#ifndef TN_PLUGIN_DIR
#define TN_PLUGIN_DIR "/usr/local/lib/tenon"
#endif

/* Adds a folder to the search path; takes over path. */
static tn_status add_dir(tn_loader *l, char *path, const char *from, tn_err *err)
{
  tn_dir *dirs = path ? realloc(l->dirs, (l->n_dirs + 1) * sizeof *dirs) : NULL;
  if (!dirs) {
    free(path);
    return tn_fail(err, TN_E_NOMEM, "no memory for the plugin search path");
  }
  l->dirs = dirs;
  l->dirs[l->n_dirs++] = (tn_dir){path, from};
  return TN_OK;
}

/* Adds the absolute entries of a colon-separated list; the others go to l->ignored. Empty entries are nothing. */
static tn_status add_list(tn_loader *l, const char *list, tn_err *err)
{
  for (const char *p = list; *p;) {
    size_t n = strcspn(p, ":");
    if (n > 0 && *p != '/') {
      tn_loader_log(l, TN_LOG_WARN, "TN_PATH entry '%.*s' is not an absolute path and is not searched", (int)n, p);
      tn_text_addf(&l->ignored, "%s%.*s (not an absolute path)", l->ignored.n ? ", " : "", (int)n, p);
    } else if (n > 0) {
      tn_status st = add_dir(l, tn_strndup(p, n), "TN_PATH", err);
      if (st != TN_OK) return st;
    }
    p += n + (p[n] == ':');
  }
  return l->ignored.failed ? tn_fail(err, TN_E_NOMEM, "no memory for the plugin search path") : TN_OK;
}

/* The folder above the one that this process's executable is in, symbolic links resolved: "/usr" for /usr/bin/tenon.
 * *out is to be freed with free(). */
static tn_status prefix(const tn_loader_cfg *cfg, char **out, tn_err *err)
{
  char path[PATH_MAX];
  if (cfg->exe_dir) {
    snprintf(path, sizeof path, "%s", cfg->exe_dir);
  } else {
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    if (n <= 0) return tn_fail(err, TN_E_IO, "cannot find the folder of the executable: %s", strerror(errno));
    path[n] = '\0';
    char *slash = strrchr(path, '/');
    if (slash) *slash = '\0';
  }
  char *slash = strrchr(path, '/');
  *out = tn_strndup(path, slash ? (size_t)(slash - path) : 0);
  return *out ? TN_OK : tn_fail(err, TN_E_NOMEM, "no memory for the plugin search path");
}

tn_status tn_loader_dirs_init(tn_loader *l, const tn_loader_cfg *cfg, tn_err *err)
{
  const char *list = cfg->path ? cfg->path : secure_getenv("TN_PATH");
  if (!list && getenv("TN_PATH")) {
    tn_loader_log(l, TN_LOG_WARN, "TN_PATH is not used: the process runs with raised privileges");
    tn_text_addf(&l->ignored, "TN_PATH (raised privileges)");
    if (l->ignored.failed) return tn_fail(err, TN_E_NOMEM, "no memory for the plugin search path");
  }
  tn_status st = list ? add_list(l, list, err) : TN_OK;
  if (st != TN_OK) return st;
  char *above = NULL;
  st = prefix(cfg, &above, err);
  if (st != TN_OK) return st;
  char *beside = tn_asprintf("%s/lib/tenon", above);
  free(above);
  st = add_dir(l, beside, "executable", err);
  const char *lib = cfg->lib_dir ? cfg->lib_dir : TN_PLUGIN_DIR;
  if (st == TN_OK && *lib) st = add_dir(l, tn_strdup(lib), "installation", err);
  return st;
}

/* The canonical path of an existing regular file. TN_E_ARG: there is no such file. */
static tn_status canonical(const char *file, char **path, tn_err *err)
{
  struct stat st;
  char real[PATH_MAX];
  if (stat(file, &st) != 0) {
    bool none = errno == ENOENT || errno == ENOTDIR;
    return tn_fail(err, none ? TN_E_ARG : TN_E_IO, "%s: %s", file, strerror(errno));
  }
  if (!S_ISREG(st.st_mode)) return tn_fail(err, TN_E_IO, "%s: not a regular file", file);
  if (!realpath(file, real)) return tn_fail(err, TN_E_IO, "%s: %s", file, strerror(errno));
  *path = tn_strdup(real);
  return *path ? TN_OK : tn_fail(err, TN_E_NOMEM, "%s: no memory for the path", file);
}

/* Bytes of a list "a, b, c" that fit into room, cut at a comma; *left is how many entries do not. */
static size_t fitting(const char *list, size_t room, size_t *left)
{
  size_t cut = strlen(list);
  *left = 0;
  while (cut > room) {
    do cut--;
    while (cut > 0 && strncmp(list + cut, ", ", 2) != 0);
    ++*left;
  }
  return cut;
}

/* "eviction plugin 'h20' not found", the nearest name, and every file tried; where there are too many for one message,
 * the first of them. */
static tn_status not_found(tn_loader *l, const tn_plugin_want *want, const tn_text *files, tn_err *err)
{
  uint32_t slot = 0;
  char *near = NULL, hint[128] = "", rest[128] = "";
  tn_loader_nearest(l, want, &near, &slot);
  if (near && slot != want->slot)
    snprintf(hint, sizeof hint, " '%s' is a plugin of the slot %s;", near, tn_slot_name(slot));
  else if (near)
    snprintf(hint, sizeof hint, " did you mean '%s'?", near);
  free(near);
  const char *tried = files->n ? tn_text_str(files) : "no folder", *name = tn_slot_name(want->slot);
  size_t left, used = strlen(name) + strlen(want->name) + strlen(hint) + sizeof " plugin '' not found; tried ";
  size_t shown = fitting(tried, sizeof err->msg - used - sizeof rest, &left);
  if (left) snprintf(rest, sizeof rest, " and %zu more (tenon plugins list --dirs)", left);
  snprintf(rest + strlen(rest), sizeof rest - strlen(rest), "; TN_PATH names further folders");
  return tn_fail(err, TN_E_ARG, "%s plugin '%s' not found;%s tried %.*s%s", name, want->name, hint, (int)shown, tried,
                 rest);
}

/* Looks in every folder. The first file that is there is taken, whatever is wrong with it. */
static tn_status search(tn_loader *l, const tn_plugin_want *want, char **path, tn_err *err)
{
  tn_text files = {0};
  tn_status st = TN_E_ARG;
  for (size_t i = 0; i < l->n_dirs && st == TN_E_ARG; i++) {
    char *file = tn_asprintf("%s/%s/%s.so", l->dirs[i].path, tn_slot_name(want->slot), want->name);
    st = file ? canonical(file, path, err) : tn_fail(err, TN_E_NOMEM, "no memory for a plugin's path");
    if (st == TN_E_ARG) {
      tn_text_addf(&l->tried, "%s: no such file (%s)\n", file, l->dirs[i].from);
      tn_text_addf(&files, "%s%s (no such file)", files.n ? ", " : "", file);
    }
    free(file);
  }
  if (l->ignored.n) {
    tn_text_addf(&l->tried, "not searched: %s\n", tn_text_str(&l->ignored));
    tn_text_addf(&files, "%snot searched: %s", files.n ? "; " : "", tn_text_str(&l->ignored));
  }
  if (st == TN_E_ARG) st = not_found(l, want, &files, err);
  tn_text_release(&files);
  return st;
}

tn_status tn_loader_locate(tn_loader *l, const tn_plugin_want *want, char **path, tn_err *err)
{
  *path = NULL;
  if (!want->path) return search(l, want, path, err);
  if (want->path[0] != '/')
    return tn_fail(err, TN_E_ARG, "%s plugin '%s': the path '%s' is not absolute", tn_slot_name(want->slot), want->name,
                   want->path);
  tn_status st = canonical(want->path, path, err);
  if (st != TN_OK) tn_err_prefix(err, "%s plugin '%s'", tn_slot_name(want->slot), want->name);
  return st;
}
