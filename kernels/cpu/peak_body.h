/* peak_body: the loop of peak.h, written once over the products of idot_*.h. Each peak_<isa>.c includes it with
 * TNK_NAME(x) set to the name of its function. */
#include "panel.h"
#include "peak.h"
#include "simd.h"
#if defined(__AVX512F__)
#include "idot_avx512.h"
#elif defined(__AVX2__)
#include "idot_avx2.h"
#else
#include "idot_scalar.h"
#endif

/* One block times all rows, added to t; bits is a constant at every call. */
TNK_AI void one_block(const int bits, const tnk_peak_data *d, int64_t b, vi *t)
{
  const int chain = TNK_CHAIN(bits);
  vp c[TNK_PEAK_ROWS];
  TNK_UNROLL
  for (int j = 0; j < 8; j++) {
    const vw w = vw_load(d->code[b][j]);
    TNK_UNROLL
    for (int r = 0; r < TNK_PEAK_ROWS; r++) {
      const va x = va_load(d->row[r][b] + 4 * j);
      if (bits == 8 && TNK_SIGNED8) {
        t[r] = vi_add(t[r], vi_mul8(w, x));
        continue;
      }
      c[r] = j % chain == 0 ? vp_mul(w, x) : vp_mla(c[r], w, x);
      if (j % chain == chain - 1) t[r] = vi_add(t[r], vi_of(c[r]));
    }
  }
}

TNK_AI uint64_t peak(const int bits, const tnk_peak_data *d, uint64_t rounds, int32_t *sum)
{
  for (uint64_t i = 0; i < rounds; i++) {
    vi t[TNK_PEAK_ROWS];
    memset(t, 0, sizeof t);
    for (int64_t b = 0; b < TNK_PEAK_BLOCKS; b++) one_block(bits, d, b, t);
    memcpy(sum, t, sizeof t);
    __asm__ volatile("" : : "r"(d), "r"(sum) : "memory"); /* the next round is not this one */
  }
  return rounds * (2u * TNK_PEAK_BLOCKS * TNK_BLOCK * TNK_PANEL * TNK_PEAK_ROWS);
}

uint64_t TNK_NAME(tnk_peak)(const tnk_peak_data *d, uint64_t rounds, int32_t *sum) { return peak(4, d, rounds, sum); }
uint64_t TNK_NAME(tnk_peak_bytes)(const tnk_peak_data *d, uint64_t rounds, int32_t *sum)
{
  return peak(8, d, rounds, sum);
}
