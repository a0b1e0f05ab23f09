/* peak: the loop of an instruction set, and what it works on. */
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

void tnk_peak_fill(tnk_peak_data *d)
{
  uint8_t *code = d->code[0][0];
  int8_t *row = d->row[0][0];
  for (uint32_t i = 0; i < sizeof d->code; i++) code[i] = (uint8_t)(i * 2654435761u >> 28);
  for (uint32_t i = 0; i < sizeof d->row; i++) row[i] = (int8_t)((int32_t)((i * 2246822519u >> 16) % 255) - 127);
}
