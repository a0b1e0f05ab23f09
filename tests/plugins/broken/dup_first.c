/* dup_first: has the id of dup_second. */
#define NAME "dup_first"
#define ID "org.tenon.test.dup"
#include "base.h"
