/* linear_scalar: the kernels of linear.h for scalar. */
#define TNK_NAME(x) x##_scalar
#include "linear_body.h"
