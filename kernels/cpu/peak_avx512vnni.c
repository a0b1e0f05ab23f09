/* peak_avx512vnni: the loop of peak.h for avx512vnni. */
#define TNK_VNNI 1
#define TNK_NAME(x) x##_avx512vnni
#include "peak_body.h"
