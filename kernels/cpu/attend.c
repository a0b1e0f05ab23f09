/* attend: the attention kernels of an instruction set. */
#include "attend.h"

#include "isa.h"

const tnk_attend *tnk_attend_of(int isa)
{
#if defined(__x86_64__)
  if (isa == TNK_ISA_AVX512 || isa == TNK_ISA_AVX512VNNI) return &tnk_attend_avx512;
  if (isa == TNK_ISA_AVX2 || isa == TNK_ISA_AVXVNNI) return &tnk_attend_avx2;
#endif
  (void)isa;
  return &tnk_attend_scalar;
}
