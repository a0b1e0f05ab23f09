/* slow: takes its time to say what it is. */
#define NAME "slow"
#include <time.h>
#define ENTRY_BODY                          \
  const struct timespec t = {0, 120000000}; \
  nanosleep(&t, 0);                         \
  return &module;
#include "base.h"
