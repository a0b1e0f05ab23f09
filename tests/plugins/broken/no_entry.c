/* no_entry: does not export the entry.
 * build: no-map -Wno-unused-const-variable */
#define NAME "no_entry"
#define NO_ENTRY
#include "base.h"
