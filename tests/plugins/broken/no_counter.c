/* no_counter: has no counter, so that nobody can see whether it did anything: a warning of the checker. */
#define NAME "no_counter"
#define COUNTERS NULL
#include "base.h"
