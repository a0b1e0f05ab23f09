/* vec_avx512: the kernels of vec.h for avx512. */
#define TNK_NAME(x) x##_avx512
#include "vec_body.h"
