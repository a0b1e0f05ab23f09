/* unknown_flag: sets a flag that this ABI does not know. */
#define NAME "unknown_flag"
#define DESC_FLAGS 0x100
#include "base.h"
