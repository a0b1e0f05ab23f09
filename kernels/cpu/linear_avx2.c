/* linear_avx2: the kernels of linear.h for avx2. */
#define TNK_NAME(x) x##_avx2
#include "linear_body.h"
