/* writable: keeps a count for all instances together. */
#define NAME "writable"
static int calls[4];
#define ENTRY_BODY \
  calls[0]++;      \
  return &module;
#include "base.h"
