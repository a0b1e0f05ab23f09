/* loader: see loader.h. */
#include "loader/loader_int.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loader/words.h"

void tn_loader_log(const tn_loader *l, int32_t level, const char *fmt, ...)
{
  char msg[1024];
  va_list ap;
  if (!l->log) return;
  va_start(ap, fmt);
  vsnprintf(msg, sizeof msg, fmt, ap);
  va_end(ap);
  l->log(l->ctx, level, msg);
}

tn_status tn_loader_new(const tn_loader_cfg *cfg, tn_loader **out, tn_err *err)
{
  static const tn_loader_cfg defaults = {0};
  if (!cfg) cfg = &defaults;
  *out = NULL;
  tn_loader *l = calloc(1, sizeof *l);
  if (!l) return tn_fail(err, TN_E_NOMEM, "no memory for the plugin loader");
  l->isa = cfg->isa ? cfg->isa - 1 : tn_isa_of_host();
  l->log = cfg->log;
  l->ctx = cfg->ctx;
  tn_status st = tn_loader_dirs_init(l, cfg, err);
  if (st == TN_OK)
    *out = l;
  else
    tn_loader_free(l);
  return st;
}

void tn_loader_free(tn_loader *l)
{
  if (!l) return;
  for (size_t i = l->n_files; i-- > 0;) {
    if (l->files[i]->module->shutdown) l->files[i]->module->shutdown();
    free(l->files[i]->path);
    free(l->files[i]);
  }
  for (size_t i = 0; i < l->n_plugins; i++) free(l->plugins[i]);
  for (size_t i = 0; i < l->n_dirs; i++) free(l->dirs[i].path);
  free(l->files);
  free(l->plugins);
  free(l->dirs);
  tn_text_release(&l->ignored);
  tn_text_release(&l->tried);
  free(l);
}

/* The note of a file that is for a slot, NULL: none. */
static const tn_note *note_for(const tn_notes *notes, uint32_t slot)
{
  for (size_t i = 0; i < notes->n; i++)
    if (notes->at[i].slot == slot) return &notes->at[i];
  return NULL;
}

/* The same id in another file is refused before any code of this one runs. */
static tn_status check_unique(const tn_loader *l, const char *path, const tn_notes *notes, tn_err *err)
{
  for (size_t f = 0; f < l->n_files; f++) {
    for (size_t a = 0; a < l->files[f]->notes.n; a++) {
      for (size_t b = 0; b < notes->n; b++) {
        if (strcmp(l->files[f]->notes.at[a].id, notes->at[b].id) != 0) continue;
        char mine[65] = "", its[65] = "-";
        bool same = tn_file_sha256(path, mine, NULL) == TN_OK &&
                    tn_file_sha256(l->files[f]->path, its, NULL) == TN_OK && strcmp(mine, its) == 0;
        return tn_fail(err, TN_E_UNSUPPORTED, "plugin id '%s' is in two files: %s and %s%s", notes->at[b].id,
                       l->files[f]->path, path, same ? " (the second is a copy of the first)" : "");
      }
    }
  }
  return TN_OK;
}

/* A loaded file by device and inode. A path whose file was replaced since it was loaded is an error: the process still
 * runs the old one. */
static tn_status find_loaded(const tn_loader *l, const char *path, const tn_inspected *in, tn_file **out, tn_err *err)
{
  *out = NULL;
  for (size_t i = 0; i < l->n_files; i++) {
    tn_file *f = l->files[i];
    if (f->dev == in->dev && f->ino == in->ino) {
      *out = f;
      return TN_OK;
    }
    if (strcmp(f->path, path) == 0)
      return tn_fail(err, TN_E_STATE, "%s: the file was replaced after it had been loaded; restart to use the new one",
                     path);
  }
  return TN_OK;
}

/* Room for one more file and n more plugins, so that nothing can fail once the file's code has run. */
static bool reserve(tn_loader *l, size_t n)
{
  tn_file **files = realloc(l->files, (l->n_files + 1) * sizeof(tn_file *));
  if (!files) return false;
  l->files = files;
  tn_plugin **plugins = realloc(l->plugins, (l->n_plugins + n) * sizeof(tn_plugin *));
  if (!plugins) return false;
  l->plugins = plugins;
  return true;
}

/* The instruction set in the note of that id. */
static uint32_t isa_of(const tn_notes *notes, const char *id)
{
  for (size_t i = 0; i < notes->n; i++)
    if (strcmp(notes->at[i].id, id) == 0) return notes->at[i].isa;
  return TN_ISA_BASE;
}

/* Loads a file that is not loaded yet and records it with its descriptors, of which there are as many as notes. */
static tn_status load(tn_loader *l, const char *path, const tn_inspected *in, tn_file **out, tn_err *err)
{
  tn_status st = check_unique(l, path, &in->notes, err);
  if (st != TN_OK) return st;
  const size_t n = in->notes.n;
  tn_plugin *fresh[TN_NOTE_MAX] = {NULL};
  tn_file *f = calloc(1, sizeof *f);
  bool room = f && (f->path = tn_strdup(path)) && reserve(l, n);
  for (size_t i = 0; room && i < n; i++) room = (fresh[i] = calloc(1, sizeof(tn_plugin))) != NULL;
  st = room ? tn_file_load(l, path, &in->notes, &f->module, err)
            : tn_fail(err, TN_E_NOMEM, "%s: no memory to load the plugin", path);
  if (st != TN_OK) {
    for (size_t i = 0; i < n; i++) free(fresh[i]);
    if (f) free(f->path);
    free(f);
    return st;
  }
  f->dev = in->dev;
  f->ino = in->ino;
  f->notes = in->notes;
  for (size_t i = 0; i < n; i++) {
    const tn_desc *d = f->module->desc[i];
    *fresh[i] = (tn_plugin){.desc = d, .module = f->module, .path = f->path, .isa = isa_of(&in->notes, d->id)};
    l->plugins[l->n_plugins++] = fresh[i];
    tn_loader_log(l, TN_LOG_INFO, "loaded %s/%s %s from %s", tn_slot_name(d->slot), d->name, d->version, path);
  }
  l->files[l->n_files++] = f;
  *out = f;
  return TN_OK;
}

/* The descriptor that was asked for, among those of one file. */
static tn_status pick(const tn_loader *l, const tn_file *f, const tn_plugin_want *want, const tn_plugin **out,
                      tn_err *err)
{
  const tn_plugin *of_slot = NULL;
  for (size_t i = 0; i < l->n_plugins; i++) {
    const tn_plugin *p = l->plugins[i];
    if (p->module != f->module || p->desc->slot != want->slot) continue;
    if (!of_slot) of_slot = p;
    if (strcmp(p->desc->name, want->name) != 0) continue;
    if (want->min && tn_version_compare(p->desc->version, want->min) < 0)
      return tn_fail(err, TN_E_VERSION, "%s: %s plugin '%s' has version %s, at least %s is wanted", f->path,
                     tn_slot_name(want->slot), want->name, p->desc->version, want->min);
    *out = p;
    return TN_OK;
  }
  return tn_fail(err, TN_E_UNSUPPORTED, "%s: its %s plugin is named '%s', want '%s'", f->path, tn_slot_name(want->slot),
                 of_slot ? of_slot->desc->name : "", want->name);
}

static tn_status check_want(const tn_plugin_want *want, tn_err *err)
{
  if (want->slot < TN_SLOT_FIRST || want->slot > TN_SLOT_LAST)
    return tn_fail(err, TN_E_ARG, "plugin '%s': slot %u is none of %d to %d", want->name, want->slot, TN_SLOT_FIRST,
                   TN_SLOT_LAST);
  if (!tn_is_name(want->name))
    return tn_fail(err, TN_E_ARG, "%s plugin '%s': a name has lower-case letters, digits and _, at most %d characters",
                   tn_slot_name(want->slot), want->name, TN_NAME_MAX);
  if (want->min && !tn_is_min_version(want->min))
    return tn_fail(err, TN_E_ARG, "%s plugin '%s': min is '%s', want a version such as 1.2", tn_slot_name(want->slot),
                   want->name, want->min);
  if (want->sha256 && (strlen(want->sha256) != 64 || strspn(want->sha256, "0123456789abcdefABCDEF") != 64))
    return tn_fail(err, TN_E_ARG, "%s plugin '%s': sha256 is '%s', want 64 hex digits", tn_slot_name(want->slot),
                   want->name, want->sha256);
  return TN_OK;
}

/* Checks what can be known before the file's code runs: digest, slot. */
static tn_status check_file(const char *path, const tn_inspected *in, const tn_plugin_want *want, tn_err *err)
{
  if (want->sha256) {
    char got[65];
    tn_status st = tn_file_sha256(path, got, err);
    if (st != TN_OK) return st;
    if (strcasecmp(got, want->sha256) != 0)
      return tn_fail(err, TN_E_VERSION, "%s: its sha256 is %s, want %s", path, got, want->sha256);
  }
  if (!note_for(&in->notes, want->slot))
    return tn_fail(err, TN_E_UNSUPPORTED, "%s: its note is for the slot %s, want %s", path,
                   tn_slot_name(in->notes.at[0].slot), tn_slot_name(want->slot));
  return TN_OK;
}

tn_status tn_loader_open_want(tn_loader *l, const tn_plugin_want *want, const tn_plugin **out, tn_err *err)
{
  *out = NULL;
  tn_text_clear(&l->tried);
  tn_status st = check_want(want, err);
  if (st != TN_OK) return st;
  char *path = NULL;
  st = tn_loader_locate(l, want, &path, err);
  if (st != TN_OK) return st;
  tn_inspected in;
  tn_file *f = NULL;
  st = tn_file_inspect(path, l->isa, &in, err);
  if (st == TN_OK) st = check_file(path, &in, want, err);
  if (st == TN_OK) st = find_loaded(l, path, &in, &f, err);
  if (st == TN_OK && !f) st = load(l, path, &in, &f, err);
  if (st == TN_OK) st = pick(l, f, want, out, err);
  if (st != TN_OK && err) tn_text_addf(&l->tried, "%s\n", err->msg);
  free(path);
  return st;
}

tn_status tn_loader_open(tn_loader *l, uint32_t slot, const char *name, const char *path, const tn_plugin **out,
                         tn_err *err)
{
  const tn_plugin_want want = {.slot = slot, .name = name, .path = path};
  return tn_loader_open_want(l, &want, out, err);
}

const char *tn_loader_tried(const tn_loader *l) { return tn_text_str(&l->tried); }

size_t tn_loader_count(const tn_loader *l) { return l->n_plugins; }

const tn_plugin *tn_loader_at(const tn_loader *l, size_t i) { return l->plugins[i]; }

size_t tn_loader_n_dirs(const tn_loader *l) { return l->n_dirs; }

const char *tn_loader_dir(const tn_loader *l, size_t i, const char **from)
{
  *from = l->dirs[i].from;
  return l->dirs[i].path;
}

tn_status tn_plugin_sha256(const tn_plugin *p, char out[65], tn_err *err) { return tn_file_sha256(p->path, out, err); }
