/* hangs: does not come back from its entry. */
#define NAME "hangs"
#include <unistd.h>
#define ENTRY_BODY  \
  for (;;) pause(); \
  return &module;
#include "base.h"
