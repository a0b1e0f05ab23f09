/* linear_avx512: the kernels of linear.h for avx512. */
#define TNK_NAME(x) x##_avx512
#include "linear_body.h"
