/* vtable_null: has no vtable. */
#define NAME "vtable_null"
#define VTABLE NULL
#define DESCRIBE NULL
#include "base.h"
