/* reserved: a reserved word of its vtable is set. */
#define NAME "reserved"
#define VTABLE_RESERVED 1
#include "base.h"
