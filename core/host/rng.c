/* rng: see rng.h. */
#include "rng.h"

static inline uint32_t mulhi(uint32_t a, uint32_t b) { return (uint32_t)(((uint64_t)a * b) >> 32); }

void tn_philox(uint64_t key, const uint32_t counter[4], uint32_t out[4])
{
  uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
  uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
  for (int round = 0; round < 10; round++) {
    uint32_t h0 = mulhi(0xD2511F53u, c0), l0 = 0xD2511F53u * c0;
    uint32_t h1 = mulhi(0xCD9E8D57u, c2), l1 = 0xCD9E8D57u * c2;
    c0 = h1 ^ c1 ^ k0;
    c1 = l1;
    c2 = h0 ^ c3 ^ k1;
    c3 = l0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  out[0] = c0;
  out[1] = c1;
  out[2] = c2;
  out[3] = c3;
}

double tn_rng_uniform(uint64_t request, uint64_t position, uint32_t purpose, uint32_t index)
{
  uint32_t counter[4] = {(uint32_t)position, (uint32_t)(position >> 32), purpose, index}, out[4];
  tn_philox(request, counter, out);
  uint64_t bits = ((uint64_t)out[0] << 32 | out[1]) >> 11;
  return (double)bits * 0x1p-53;
}
