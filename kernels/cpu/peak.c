/* peak: the loop of an instruction set. */
#include "peak.h"

#include "isa.h"

tnk_peak tnk_peak_of(int isa)
{
#if defined(__x86_64__)
  switch (isa) {
    case TNK_ISA_AVX2: return tnk_peak_avx2;
    case TNK_ISA_AVXVNNI: return tnk_peak_avxvnni;
    case TNK_ISA_AVX512: return tnk_peak_avx512;
    case TNK_ISA_AVX512VNNI: return tnk_peak_avx512vnni;
    default: break;
  }
#endif
  (void)isa;
  return tnk_peak_scalar;
}
