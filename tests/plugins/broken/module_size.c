/* module_size: its module is smaller than that of this ABI. */
#define NAME "module_size"
#define MODULE_SIZE 16
#include "base.h"
