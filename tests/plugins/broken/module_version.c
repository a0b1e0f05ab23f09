/* module_version: its module has a version that is none. */
#define NAME "module_version"
#define MODULE_VERSION "1.0"
#include "base.h"
