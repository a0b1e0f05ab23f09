/* bad_end: its destructor crashes. */
#define NAME "bad_end"
__attribute__((destructor)) static void end(void) { __builtin_trap(); }
#include "base.h"
