/* vendor_not_utf8: its vendor is not UTF-8. */
#define NAME "vendor_not_utf8"
#define VENDOR "caf\xe9"
#include "base.h"
