/* wild_pointer: its summary is at an address where there is nothing. */
#define NAME "wild_pointer"
#include "plugin_api.h"
#define SUMMARY ((const char *)16)
#include "base.h"
