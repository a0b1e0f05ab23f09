/* constructor: has a constructor. */
#define NAME "constructor"
#include "plugin_api.h"
static volatile int made;
__attribute__((constructor)) static void make(void) { made = 1; }
#define ENTRY_BODY return made ? &module : 0;
#include "base.h"
