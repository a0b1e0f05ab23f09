/* desc_size: its descriptor is smaller than that of this ABI. */
#define NAME "desc_size"
#define DESC_SIZE 24
#include "base.h"
