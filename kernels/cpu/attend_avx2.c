/* attend_avx2: the kernels of attend.h for avx2. */
#define TNK_NAME(x) x##_avx2
#include "attend_body.h"
