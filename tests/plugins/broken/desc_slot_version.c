/* desc_slot_version: its vtable is of another version of the slot. */
#define NAME "desc_slot_version"
#define DESC_SLOT_VERSION 2
#include "base.h"
