/* vec: the row kernels of an instruction set. */
#include "vec.h"

#include "isa.h"

const tnk_vec *tnk_vec_of(int isa)
{
#if defined(__x86_64__)
  if (isa == TNK_ISA_AVX512 || isa == TNK_ISA_AVX512VNNI) return &tnk_vec_avx512;
  if (isa == TNK_ISA_AVX2 || isa == TNK_ISA_AVXVNNI) return &tnk_vec_avx2;
#endif
  (void)isa;
  return &tnk_vec_scalar;
}
