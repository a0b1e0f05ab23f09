/* config_load: files and their includes; see config.h. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config_int.h"
#include "config/section.h"

typedef struct loading { /* one file being read */
  tn_config *c;
  uint32_t source;
} loading;

static tn_status load(tn_config *c, char *path, uint32_t depth, tn_err *err);

static tn_status read_file(const tn_config *c, const char *path, char **id, char **bytes, size_t *n, tn_err *err)
{
  if (c->fs.read) return c->fs.read(c->fs.ctx, path, id, bytes, n, err);
  tn_status st = tn_file_read(path, TN_CONFIG_MAX_FILE, bytes, n, err);
  if (st) return st;
  char canonical[PATH_MAX];
  bool found = realpath(path, canonical) != NULL;
  *id = found ? tn_strdup(canonical) : NULL;
  if (*id) return TN_OK;
  free(*bytes);
  *bytes = NULL;
  if (found) return tn_fail(err, TN_E_NOMEM, "no memory for the configuration");
  return tn_fail(err, TN_E_IO, "%s: its canonical path cannot be found: %s", path, strerror(errno));
}

static char *dir_of(const char *path)
{
  const char *slash = strrchr(path, '/');
  if (!slash) return tn_strdup(".");
  return tn_strndup(path, slash == path ? 1 : (size_t)(slash - path));
}

/* The chain of files that are being read, from the one with this id on: "a.ini -> b.ini -> ". */
static void chain(const tn_config *c, size_t from, char *buf, size_t n)
{
  size_t at = 0;
  buf[0] = '\0';
  for (size_t i = from; i < c->n_sources; i++) {
    if (!c->sources[i].open) continue;
    int k = snprintf(buf + at, n - at, "%s -> ", c->sources[i].path);
    if (k < 0 || (size_t)k >= n - at) break;
    at += (size_t)k;
  }
}

/* A file with this id was met before: a cycle, or nothing left to do. */
static tn_status met(const tn_config *c, size_t i, const char *path, tn_err *err)
{
  if (!c->sources[i].open) return TN_OK;
  char files[320];
  chain(c, i, files, sizeof files);
  return tn_fail(err, TN_E_ARG, "files include each other in a circle: %s%s", files, path);
}

/* load of a path made by tn_path_from; *missing: there is no such file. */
static tn_status load_from(tn_config *c, const char *dir, const char *name, uint32_t depth, bool *missing, tn_err *err)
{
  *missing = false;
  size_t n_sources = c->n_sources;
  char *path = tn_path_from(dir, name);
  if (!path) return tn_fail(err, TN_E_NOMEM, "no memory for the configuration");
  tn_status st = load(c, path, depth, err);
  *missing = st == TN_E_IO && c->n_sources == n_sources;
  return st;
}

/* Reads the file that an include names: beside the including file, else in the installation's folder. */
static tn_status include(loading *l, const char *name, tn_err *err)
{
  tn_config *c = l->c;
  uint32_t depth = c->sources[l->source].depth + 1;
  bool missing;
  if (*name == '\0') return tn_fail(err, TN_E_ARG, "include: a file's name is missing");
  if (depth > TN_CONFIG_MAX_DEPTH)
    return tn_fail(err, TN_E_ARG, "include = %s: includes go deeper than %d files", name, TN_CONFIG_MAX_DEPTH);
  tn_err first = tn_err_init(), second = tn_err_init();
  tn_status st = load_from(c, c->sources[l->source].dir, name, depth, &missing, &first);
  if (!st) return TN_OK;
  if (missing && c->conf_dir && name[0] != '/') {
    st = load_from(c, c->conf_dir, name, depth, &missing, &second);
    if (!st) return TN_OK;
    if (missing) return tn_fail(err, st, "%s; nor is it in %s", first.msg, c->conf_dir);
    first = second;
  }
  return tn_fail(err, st, "%s", first.msg);
}

static tn_status on_item(void *ctx, const tn_ini_item *item, tn_err *err)
{
  loading *l = ctx;
  tn_status st;
  char where[512];
  const char *path = l->c->sources[l->source].path;
  snprintf(where, sizeof where, "%.480s:%u", path, item->line);
  if (*item->section) {
    st = tn_config_check_names(item->section, item->key, err);
    if (!st) st = tn_config_add(l->c, item, l->source, where, err);
  } else if (!strcmp(item->key, "include")) {
    st = include(l, item->value, err);
  } else {
    st = tn_fail(err, TN_E_ARG, "'%s' stands before the first [section], where only include is allowed", item->key);
  }
  if (st) tn_err_prefix(err, "%s", where);
  return st;
}

static tn_status parse(tn_config *c, tn_config_source src, const char *text, size_t n, tn_err *err)
{
  loading l = {.c = c};
  src.open = true;
  tn_status st = tn_config_add_source(c, src, &l.source, err);
  if (st) return st;
  st = tn_ini_parse(c->sources[l.source].path, text, n, on_item, &l, err);
  c->sources[l.source].open = false;
  return st;
}

/* Takes over path. TN_E_IO without a new source: there is no such file. */
static tn_status load(tn_config *c, char *path, uint32_t depth, tn_err *err)
{
  char *id = NULL, *bytes = NULL;
  size_t n = 0;
  tn_status st = read_file(c, path, &id, &bytes, &n, err);
  if (st) goto out;
  for (size_t i = 0; i < c->n_sources; i++) {
    if (!c->sources[i].id || strcmp(c->sources[i].id, id) != 0) continue;
    st = met(c, i, path, err);
    goto out;
  }
  if (c->n_sources >= TN_CONFIG_MAX_FILES) {
    st = tn_fail(err, TN_E_ARG, "%s: over %d files", path, TN_CONFIG_MAX_FILES);
    goto out;
  }
  tn_config_source src = {.path = path, .id = id, .dir = dir_of(path), .depth = depth};
  if (!src.dir) {
    st = tn_fail(err, TN_E_NOMEM, "no memory for the configuration");
    goto out;
  }
  path = NULL;
  id = NULL;
  st = parse(c, src, bytes, n, err);
out:
  free(path);
  free(id);
  free(bytes);
  return st;
}

tn_status tn_config_load(tn_config *c, const char *path, tn_err *err)
{
  char *copy = tn_strdup(path);
  if (!copy) return tn_fail(err, TN_E_NOMEM, "no memory for the configuration");
  return load(c, copy, 0, err);
}

tn_status tn_config_load_text(tn_config *c, const char *name, const char *text, size_t n, tn_err *err)
{
  tn_config_source src = {.path = tn_strdup(name), .id = tn_asprintf("text %zu", c->n_sources)};
  if (!src.path || !src.id) {
    free(src.path);
    free(src.id);
    return tn_fail(err, TN_E_NOMEM, "no memory for the configuration");
  }
  return parse(c, src, text, n, err);
}

tn_status tn_config_conf_file(const tn_config *c, const char *name, char **path, char **bytes, size_t *n, tn_err *err)
{
  *path = *bytes = NULL;
  if (!c->conf_dir) return tn_fail(err, TN_E_IO, "%s: there is no folder of configurations to find it in", name);
  char *at = tn_path_from(c->conf_dir, name), *id = NULL;
  if (!at) return tn_fail(err, TN_E_NOMEM, "no memory for the configuration");
  tn_status st = read_file(c, at, &id, bytes, n, err);
  free(id);
  if (st)
    free(at);
  else
    *path = at;
  return st;
}
