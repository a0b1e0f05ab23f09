/* validate: the rules that a module and its descriptors must keep, one function each. The loader runs all of them; the
 * plugin checker runs them one by one, so the two cannot disagree. Pure functions, [any] thread.
 *
 * Errors: TN_E_UNSUPPORTED, TN_E_VERSION for an ABI or vtable version; a message names the descriptor, the field and
 * both values. */
#ifndef TN_CORE_LOADER_VALIDATE_H
#define TN_CORE_LOADER_VALIDATE_H

#include "loader/note.h"

#define TN_LIST_MAX 256u   /* entries of a NULL-terminated list */
#define TN_TEXT_MAX 4096u  /* bytes of a string */
#define TN_COUNTER_MAX 16u /* counters that the host keeps for an instance */

/* Module: size, ABI, name and version, descriptors non-NULL, ids unique. */
tn_status tn_validate_module(const tn_module *m, tn_err *err);

/* Every rule below on one descriptor, in their order. */
tn_status tn_validate_desc(const tn_desc *d, tn_err *err);

/* Each descriptor has a note of its id and slot, and each note a descriptor. */
tn_status tn_validate_notes(const tn_module *m, const tn_notes *notes, tn_err *err);

tn_status tn_rule_sizes(const tn_desc *d, tn_err *err);    /* struct_size of descriptor, vtable, parameters */
tn_status tn_rule_reserved(const tn_desc *d, tn_err *err); /* reserved words 0, unknown flags unset */
tn_status tn_rule_words(const tn_desc *d, tn_err *err);    /* slot, id, name, version, summary */
tn_status tn_rule_hooks(const tn_desc *d, tn_err *err);    /* required functions */
tn_status tn_rule_tokens(const tn_desc *d, tn_err *err);   /* provides, needs, conflicts */
tn_status tn_rule_params(const tn_desc *d, tn_err *err);   /* keys, types, ranges, defaults */
tn_status tn_rule_counters(const tn_desc *d, tn_err *err); /* names */

typedef struct tn_desc_rule {
  const char *name;
  bool basic; /* the later rules rely on it */
  tn_status (*check)(const tn_desc *, tn_err *);
} tn_desc_rule;

/* The rules in the order in which they may be applied. Static, *n of them. */
const tn_desc_rule *tn_desc_rules(size_t *n);

/* Entries of a NULL-terminated list (NULL: 0), at most TN_LIST_MAX + 1. */
size_t tn_list_len(const void *list);

#endif
