/* bad_version: its version is none. */
#define NAME "bad_version"
#define DESC_VERSION "v1"
#include "base.h"
