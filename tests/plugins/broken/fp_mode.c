/* fp_mode: its constructor turns denormals off, as -ffast-math at link time does. */
#define NAME "fp_mode"
#if defined(__SSE__)
#include <xmmintrin.h>
__attribute__((constructor)) static void fast(void) { _mm_setcsr(_mm_getcsr() | 0x8040u); }
#endif
#include "base.h"
