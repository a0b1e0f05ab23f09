/* vec_avx2: the kernels of vec.h for avx2. */
#define TNK_NAME(x) x##_avx2
#include "vec_body.h"
