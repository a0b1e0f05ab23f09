/* decode: from any dtype to f32. */
#include "decode.h"

#include <string.h>

static void decode_f16(const uint8_t *src, float *dst, size_t n)
{
  for (size_t i = 0; i < n; i++) dst[i] = tnk_half_at(src + 2 * i);
}

static void decode_bf16(const uint8_t *src, float *dst, size_t n)
{
  for (size_t i = 0; i < n; i++) dst[i] = tnk_bf16_to_f32((uint16_t)(src[2 * i] | src[2 * i + 1] << 8));
}

bool tnk_decode(uint32_t dtype, const void *src, float *dst, size_t n)
{
  tnk_dtype_info info = tnk_dtype(dtype);
  if (!info.decodes) return false;
  const uint8_t *p = src;
  size_t blocks = n / info.block;
  switch (dtype) {
    case TNK_F32: memcpy(dst, src, n * sizeof *dst); return true;
    case TNK_F16: decode_f16(p, dst, n); return true;
    case TNK_BF16: decode_bf16(p, dst, n); return true;
    case TNK_Q4_0: tnk_decode_q4_0(p, dst, blocks); return true;
    case TNK_Q4_1: tnk_decode_q4_1(p, dst, blocks); return true;
    case TNK_Q5_0: tnk_decode_q5_0(p, dst, blocks); return true;
    case TNK_Q5_1: tnk_decode_q5_1(p, dst, blocks); return true;
    case TNK_Q8_0: tnk_decode_q8_0(p, dst, blocks); return true;
    case TNK_Q2_K: tnk_decode_q2_k(p, dst, blocks); return true;
    case TNK_Q3_K: tnk_decode_q3_k(p, dst, blocks); return true;
    case TNK_Q4_K: tnk_decode_q4_k(p, dst, blocks); return true;
    case TNK_Q5_K: tnk_decode_q5_k(p, dst, blocks); return true;
    case TNK_Q6_K: tnk_decode_q6_k(p, dst, blocks); return true;
    case TNK_IQ4_NL: tnk_decode_iq4_nl(p, dst, blocks); return true;
    case TNK_IQ4_XS: tnk_decode_iq4_xs(p, dst, blocks); return true;
    default: return false;
  }
}
