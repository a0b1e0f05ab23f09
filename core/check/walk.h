/* walk: everything that a module points to, each thing with its name ("desc[0].params[2].help"). */
#ifndef TN_CORE_CHECK_WALK_H
#define TN_CORE_CHECK_WALK_H

#include "base.h"

/* What to do with each thing; any of the functions may be NULL. p and s are never NULL. */
typedef struct tn_walker {
  void *ctx;
  /* A struct or list of n bytes. false: it cannot be used, and what it points to is not visited. */
  bool (*object)(void *ctx, const char *what, const void *p, size_t n);
  /* A string. */
  void (*string)(void *ctx, const char *what, const char *s);
  /* A function pointer. */
  void (*function)(void *ctx, const char *what, const void *fn);
} tn_walker;

/* Visits the module, its descriptors, their strings, lists, parameters and vtables. A struct is visited in the smaller
 * of its own size and this ABI's, and what lies behind its end is not. No more than 16 descriptors and 257 entries of a
 * list are visited. */
void tn_walk(const tn_module *m, const tn_walker *w);

#endif
