/* peak_avx2: the loop of peak.h for avx2. */
#define TNK_NAME(x) x##_avx2
#include "peak_body.h"
