/* peak_scalar: the loop of peak.h for scalar. */
#define TNK_NAME(x) x##_scalar
#include "peak_body.h"
