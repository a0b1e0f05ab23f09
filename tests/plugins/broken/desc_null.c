/* desc_null: a descriptor of its module is NULL. */
#define NAME "desc_null"
#define MODULE_N_DESC 2
#include "base.h"
