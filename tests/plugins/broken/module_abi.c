/* module_abi: its module says another ABI than its note. */
#define NAME "module_abi"
#define MODULE_MINOR 999
#include "base.h"
