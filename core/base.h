/* base: the few helpers that every core file uses. Errors, checked sizes, borrowed strings.
 *
 * Rules of the house: a function that can fail returns tn_status and, on cold paths, fills a caller-owned tn_err;
 * nothing below main exits, aborts or prints. Memory comes from malloc/calloc/realloc/free (the tests wrap those four). */
#ifndef TN_CORE_BASE_H
#define TN_CORE_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plugin_api.h"

/* A borrowed run of bytes: not NUL-terminated, may hold any byte. */
typedef struct tn_str {
  const char *p;
  size_t n;
} tn_str;

#define TN_ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define TN_PRINTF(f, a) __attribute__((format(printf, f, a)))

/* Fills *err (which may be NULL) with code and text, cut at the last whole UTF-8 character that fits; bytes that are no
 * character become question marks. Returns code. */
tn_status tn_fail(tn_err *err, tn_status code, const char *fmt, ...) TN_PRINTF(3, 4);

/* Puts "prefix: " before the text that err already carries (phase, plugin, file). err may be NULL. */
void tn_err_prefix(tn_err *err, const char *fmt, ...) TN_PRINTF(2, 3);

/* Empty error, ready to be passed. */
tn_err tn_err_init(void);

/* "TN_E_NOMEM" and the like, for messages and --json. */
const char *tn_status_name(tn_status code);

/* a * b and a + b into *out; false on overflow. */
bool tn_mul_size(size_t a, size_t b, size_t *out);
bool tn_add_size(size_t a, size_t b, size_t *out);

/* calloc of n * size with an overflow check. NULL on failure. Free with free(). */
void *tn_zalloc(size_t n, size_t size);

/* Copy of n bytes plus a NUL, or of a C string. NULL on failure. Free with free(). */
char *tn_strndup(const char *p, size_t n);
char *tn_strdup(const char *s);

/* printf into fresh memory. NULL on failure. Free with free(). */
char *tn_asprintf(const char *fmt, ...) TN_PRINTF(1, 2);

/* The candidate nearest to word by edit distance, or NULL when none is near enough to suggest
 * (distance over a third of the longer word). candidates[n] are borrowed; the result points into them. */
const char *tn_nearest(const char *word, const char *const *candidates, size_t n);

/* Monotonic clock, nanoseconds. */
uint64_t tn_now_ns(void);

#endif
