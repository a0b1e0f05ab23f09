/* attend_avx512: the kernels of attend.h for avx512. */
#define TNK_NAME(x) x##_avx512
#include "attend_body.h"
