/* crashes: crashes in its entry. */
#define NAME "crashes"
#define ENTRY_BODY                   \
  int *volatile nowhere = (int *)16; \
  *nowhere = 0;                      \
  return &module;
#include "base.h"
