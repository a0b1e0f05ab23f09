/* counter_twice: has two counters of one name. */
#define NAME "counter_twice"
static const char *const counters[] = {"evicted", "evicted", 0};
#define COUNTERS counters
#include "base.h"
