/* catalog: where the composer finds plugins. The command has the loader's; tests make their own of descriptors in
 * memory. */
#ifndef TN_CORE_COMPOSE_CATALOG_H
#define TN_CORE_COMPOSE_CATALOG_H

#include "loader/loader.h"

typedef struct tn_names {
  char **at; /* [n] */
  size_t n;
} tn_names;

typedef struct tn_catalog {
  void *ctx;
  /* The wanted plugin; *out is the catalogue's. Errors as of tn_loader_open_want. */
  tn_status (*open)(void *ctx, const tn_plugin_want *want, const tn_plugin **out, tn_err *err);
  /* Names of a slot's plugins that could be opened, each once. *out is the caller's (tn_names_free). */
  tn_status (*names)(void *ctx, uint32_t slot, tn_names *out, tn_err *err);
} tn_catalog;

/* The loader's catalogue. Borrows it; the loader's thread rule applies. */
tn_catalog tn_catalog_of(tn_loader *l);

/* Adds a copy of name; false: no memory. */
bool tn_names_add(tn_names *names, const char *name);
bool tn_names_has(const tn_names *names, const char *name);
void tn_names_free(tn_names *names);

#endif
