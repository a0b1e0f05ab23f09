/* dup_second: has the id of dup_first. */
#define NAME "dup_second"
#define ID "org.tenon.test.dup"
#include "base.h"
