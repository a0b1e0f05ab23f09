/* text: a string that grows. Zero-initialised it is empty; a failed allocation is remembered and later additions do
 * nothing, so that a caller checks once, at the end. One text serves one thread. */
#ifndef TN_CORE_LOADER_TEXT_H
#define TN_CORE_LOADER_TEXT_H

#include "base.h"

typedef struct tn_text {
  char *p; /* [n] and a NUL; NULL while nothing was added */
  size_t n, cap;
  bool failed; /* some addition found no memory */
} tn_text;

void tn_text_add(tn_text *t, const char *s, size_t n);
void tn_text_addf(tn_text *t, const char *fmt, ...) TN_PRINTF(2, 3);

/* The text so far, "" when nothing was added. Borrowed until the next call. */
const char *tn_text_str(const tn_text *t);

/* Empties the text and keeps its memory. */
void tn_text_clear(tn_text *t);

/* Frees the memory; the text is empty and may be used again. */
void tn_text_release(tn_text *t);

#endif
