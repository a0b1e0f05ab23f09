/* writes: writes to the standard streams without a C library call for it. */
#define NAME "writes"
#include <unistd.h>
#define ENTRY_BODY return write(1, "hello\n", 6) != 6 ? 0 : &module;
#include "base.h"
