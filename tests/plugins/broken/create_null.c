/* create_null: has no create. */
#define NAME "create_null"
#define CREATE NULL
#include "base.h"
