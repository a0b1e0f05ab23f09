/* undefined_symbol: calls a function that nobody defines.
 * build: no-defs */
#define NAME "undefined_symbol"
extern int tn_no_such_function(void);
#define ENTRY_BODY return tn_no_such_function() ? &module : 0;
#include "base.h"
