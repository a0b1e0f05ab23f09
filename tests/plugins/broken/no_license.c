/* no_license: does not say under which licence it may be used. */
#define NAME "no_license"
#define MODULE_LICENSE NULL
#include "base.h"
