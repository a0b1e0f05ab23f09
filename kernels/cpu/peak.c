/* peak: the loop of an instruction set. */
#include "peak.h"

#include "isa.h"

tnk_peak tnk_peak_of(int isa, int bits)
{
#if defined(__x86_64__)
  switch (isa) {
    case TNK_ISA_AVX2: return bits == 8 ? tnk_peak_bytes_avx2 : tnk_peak_avx2;
    case TNK_ISA_AVXVNNI: return bits == 8 ? tnk_peak_bytes_avxvnni : tnk_peak_avxvnni;
    case TNK_ISA_AVX512: return bits == 8 ? tnk_peak_bytes_avx512 : tnk_peak_avx512;
    case TNK_ISA_AVX512VNNI: return bits == 8 ? tnk_peak_bytes_avx512vnni : tnk_peak_avx512vnni;
    default: break;
  }
#endif
  (void)isa;
  return bits == 8 ? tnk_peak_bytes_scalar : tnk_peak_scalar;
}
