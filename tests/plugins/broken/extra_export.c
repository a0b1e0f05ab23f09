/* extra_export: exports a function besides its entry.
 * build: no-map */
#define NAME "extra_export"
__attribute__((visibility("default"))) int helper(void);
int helper(void) { return 1; }
#include "base.h"
