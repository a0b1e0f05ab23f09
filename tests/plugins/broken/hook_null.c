/* hook_null: a function that the slot needs is NULL. */
#define NAME "hook_null"
#define DESCRIBE NULL
#include "base.h"
