/* json_add: JSON that is whole or not there. A value that could not be made or added leaves NULL in the place of what it
 * belongs to, so that one check at the end sees every allocation that failed.
 *
 * Thread rule: as the value's. */
#ifndef TN_CORE_SERVE_JSON_ADD_H
#define TN_CORE_SERVE_JSON_ADD_H

#include <jansson.h>

/* Adds v to the object or the list, taking over its reference. When *to or v is NULL, or without memory, both are released
 * and *to is NULL. */
void tn_json_set(json_t **to, const char *key, json_t *v);
void tn_json_append(json_t **to, json_t *v);

/* The value as text, NUL-terminated; flags as json_dumps takes them. Free with free(). NULL: v is NULL, or no memory. */
char *tn_json_text(const json_t *v, size_t flags);

#endif
