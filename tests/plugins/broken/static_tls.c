/* static_tls: uses static thread-local storage.
 * build: -ftls-model=initial-exec */
#define NAME "static_tls"
static __thread int depth;
#define ENTRY_BODY \
  depth++;         \
  return &module;
#include "base.h"
