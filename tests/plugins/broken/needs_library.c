/* needs_library: needs a library that a machine may not have.
 * build: -Wl,--no-as-needed -ljansson -Wl,--as-needed */
#define NAME "needs_library"
#include "base.h"
