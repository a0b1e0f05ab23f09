/* vtable_size: its vtable is smaller than that of this ABI. */
#define NAME "vtable_size"
#define VTABLE_SIZE 8
#include "base.h"
