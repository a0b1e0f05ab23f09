/* catalog: see catalog.h. */
#include "compose/catalog.h"

#include <stdlib.h>
#include <string.h>

bool tn_names_add(tn_names *names, const char *name)
{
  char *copy = tn_strdup(name), **at = realloc(names->at, (names->n + 1) * sizeof *at);
  if (at) names->at = at;
  if (!copy || !at) {
    free(copy);
    return false;
  }
  names->at[names->n++] = copy;
  return true;
}

bool tn_names_has(const tn_names *names, const char *name)
{
  for (size_t i = 0; i < names->n; i++)
    if (!strcmp(names->at[i], name)) return true;
  return false;
}

void tn_names_free(tn_names *names)
{
  for (size_t i = 0; i < names->n; i++) free(names->at[i]);
  free(names->at);
  *names = (tn_names){0};
}

static tn_status loader_open(void *ctx, const tn_plugin_want *want, const tn_plugin **out, tn_err *err)
{
  return tn_loader_open_want(ctx, want, out, err);
}

static tn_status loader_names(void *ctx, uint32_t slot, tn_names *out, tn_err *err)
{
  *out = (tn_names){0};
  tn_found_list found;
  tn_status st = tn_loader_scan(ctx, &found, err);
  if (st) return st;
  for (size_t i = 0; i < found.n && !st; i++) {
    const tn_found *f = &found.at[i];
    if (f->slot != slot || f->shadowed || f->problem) continue;
    if (!tn_names_add(out, f->name)) st = tn_fail(err, TN_E_NOMEM, "no memory to list the plugins");
  }
  tn_found_list_free(&found);
  if (st) tn_names_free(out);
  return st;
}

tn_catalog tn_catalog_of(tn_loader *l) { return (tn_catalog){l, loader_open, loader_names}; }
