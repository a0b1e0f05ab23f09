/* linear_avx512vnni: the kernels of linear.h for avx512vnni. */
#define TNK_VNNI 1
#define TNK_NAME(x) x##_avx512vnni
#include "linear_body.h"
