/* linear_avxvnni: the kernels of linear.h for avxvnni. */
#define TNK_VNNI 1
#define TNK_NAME(x) x##_avxvnni
#include "linear_body.h"
