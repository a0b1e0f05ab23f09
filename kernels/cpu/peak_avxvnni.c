/* peak_avxvnni: the loop of peak.h for avxvnni. */
#define TNK_VNNI 1
#define TNK_NAME(x) x##_avxvnni
#include "peak_body.h"
