/* catalog: the plugin files of the search path, known by their notes. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "loader/loader_int.h"
#include "loader/words.h"

static void found_release(tn_found *f)
{
  free((char *)f->name);
  free((char *)f->path);
  free((char *)f->id);
  free((char *)f->problem);
}

void tn_found_list_free(tn_found_list *list)
{
  for (size_t i = 0; i < list->n; i++) found_release(&list->at[i]);
  free(list->at);
  *list = (tn_found_list){0};
}

static bool push(tn_found_list *list, const tn_found *f)
{
  if ((list->n & (list->n + 1)) == 0) { /* n is 0, 1, 3, 7, ...: full */
    tn_found *at = realloc(list->at, (2 * list->n + 1) * sizeof *at);
    if (!at) return false;
    list->at = at;
  }
  list->at[list->n++] = *f;
  return true;
}

/* Is there already a file of this slot and name? */
static bool seen(const tn_found_list *list, uint32_t slot, const char *name)
{
  for (size_t i = 0; i < list->n; i++)
    if (list->at[i].slot == slot && strcmp(list->at[i].name, name) == 0) return true;
  return false;
}

/* The id of the slot's note into *id, or what is wrong with the file into *problem. False: no memory. */
static bool describe(const tn_loader *l, tn_found *f)
{
  tn_inspected in;
  tn_err err = tn_err_init();
  const char *id = NULL;
  tn_status st = TN_OK;
  if (!tn_is_name(f->name)) {
    f->problem = tn_asprintf("%s: '%s' is no plugin name (lower-case letters, digits, _)", f->path, f->name);
  } else if ((st = tn_file_inspect(f->path, l->isa, &in, &err)) != TN_OK) {
    f->problem = tn_strdup(err.msg);
  } else {
    for (size_t i = 0; i < in.notes.n && !id; i++)
      if (in.notes.at[i].slot == f->slot) id = in.notes.at[i].id;
    if (!id)
      f->problem = tn_asprintf("%s: its note is for the slot %s, its folder is %s", f->path,
                               tn_slot_name(in.notes.at[0].slot), tn_slot_name(f->slot));
  }
  f->id = tn_strdup(id ? id : "");
  return st != TN_E_NOMEM && f->id && (*f->id || f->problem);
}

/* One more file. full false: name and path only. */
static bool add(const tn_loader *l, uint32_t slot, const char *folder, const char *entry, bool full,
                tn_found_list *list)
{
  tn_found f = {.slot = slot, .name = tn_strndup(entry, strlen(entry) - 3)};
  f.path = tn_asprintf("%s/%s", folder, entry);
  if (f.name && f.path) {
    f.shadowed = seen(list, slot, f.name);
    if ((!full || describe(l, &f)) && push(list, &f)) return true;
  }
  found_release(&f);
  return false;
}

static int by_name(const void *a, const void *b)
{
  return strcmp(((const tn_found *)a)->name, ((const tn_found *)b)->name);
}

static bool is_so(const char *name)
{
  size_t n = strlen(name);
  return n > 3 && name[0] != '.' && strcmp(name + n - 3, ".so") == 0;
}

/* The .so files of one slot's folder, by name. A folder that is not there is no error. */
static tn_status scan_folder(const tn_loader *l, uint32_t slot, const char *dir, bool full, tn_found_list *list,
                             tn_err *err)
{
  char *folder = tn_asprintf("%s/%s", dir, tn_slot_name(slot));
  if (!folder) return tn_fail(err, TN_E_NOMEM, "no memory to list the plugins");
  DIR *d = opendir(folder);
  if (!d && errno != ENOENT && errno != ENOTDIR)
    tn_loader_log(l, TN_LOG_WARN, "%s: cannot be listed: %s", folder, strerror(errno));
  size_t begin = list->n;
  bool ok = true;
  for (struct dirent *e = d ? readdir(d) : NULL; e && ok; e = readdir(d))
    if (is_so(e->d_name)) ok = add(l, slot, folder, e->d_name, full, list);
  if (d) closedir(d);
  if (list->n > begin) qsort(list->at + begin, list->n - begin, sizeof *list->at, by_name);
  free(folder);
  return ok ? TN_OK : tn_fail(err, TN_E_NOMEM, "no memory to list the plugins");
}

static tn_status scan(const tn_loader *l, bool full, tn_found_list *out, tn_err *err)
{
  *out = (tn_found_list){0};
  tn_status st = TN_OK;
  for (uint32_t slot = TN_SLOT_FIRST; slot <= TN_SLOT_LAST; slot++)
    for (size_t i = 0; i < l->n_dirs && st == TN_OK; i++) st = scan_folder(l, slot, l->dirs[i].path, full, out, err);
  if (st != TN_OK) tn_found_list_free(out);
  return st;
}

tn_status tn_loader_scan(tn_loader *l, tn_found_list *out, tn_err *err) { return scan(l, true, out, err); }

void tn_loader_nearest(tn_loader *l, const tn_plugin_want *want, char **near, uint32_t *slot)
{
  *near = NULL;
  tn_found_list all;
  if (scan(l, false, &all, NULL) != TN_OK) return;
  const char **names = tn_zalloc(all.n, sizeof *names);
  const char *best = NULL;
  size_t n = 0;
  for (size_t i = 0; names && i < all.n; i++) { /* the very name in another slot, then near names of this slot */
    if (strcmp(all.at[i].name, want->name) == 0) best = all.at[i].name;
    if (all.at[i].slot == want->slot) names[n++] = all.at[i].name;
  }
  if (names && !best) best = tn_nearest(want->name, names, n);
  for (size_t i = 0; best && i < all.n; i++) {
    if (all.at[i].name != best) continue;
    *slot = all.at[i].slot;
    *near = tn_strdup(best);
  }
  free((void *)names);
  tn_found_list_free(&all);
}
