/* vec_scalar: the kernels of vec.h for scalar. */
#define TNK_NAME(x) x##_scalar
#include "vec_body.h"
