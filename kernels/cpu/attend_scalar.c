/* attend_scalar: the kernels of attend.h for scalar. */
#define TNK_NAME(x) x##_scalar
#include "attend_body.h"
