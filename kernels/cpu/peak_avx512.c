/* peak_avx512: the loop of peak.h for avx512. */
#define TNK_NAME(x) x##_avx512
#include "peak_body.h"
