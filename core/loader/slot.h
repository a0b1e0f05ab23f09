/* slot: the nine slots by number and by name. Pure functions, [any] thread. */
#ifndef TN_CORE_LOADER_SLOT_H
#define TN_CORE_LOADER_SLOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plugin_api.h"

#define TN_SLOT_FIRST TN_SLOT_BACKEND
#define TN_SLOT_LAST TN_SLOT_PARALLEL

/* "eviction" for TN_SLOT_EVICTION; "unknown" for a number that is no slot. Static. */
const char *tn_slot_name(uint32_t slot);

/* The number of a slot's name, 0 when there is none of that name. */
uint32_t tn_slot_by_name(const char *name);

/* One function pointer of a slot's vtable. */
typedef struct tn_hook {
  const char *name; /* "configure" */
  size_t offset;    /* in the vtable */
  bool required;    /* NULL is refused at load */
} tn_hook;

/* The hooks of a slot in the vtable's order, *n of them, and in *size the vtable's size in this ABI. Static.
 * NULL and 0 for a number that is no slot. */
const tn_hook *tn_slot_hooks(uint32_t slot, size_t *n, uint32_t *size);

#endif
