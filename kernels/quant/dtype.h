/* dtype: the element types of tensors, their block sizes, and exact decoding to f32.
 *
 * Numbers equal GGUF's ggml_type, so that a file's type word is a dtype. Names are the words users type (q4_1).
 * Kernels see neither the host nor the plugin API; the API's TN_DT_* values are asserted equal to these. */
#ifndef TN_KERNELS_QUANT_DTYPE_H
#define TN_KERNELS_QUANT_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
  TNK_F32 = 0,
  TNK_F16 = 1,
  TNK_Q4_0 = 2,
  TNK_Q4_1 = 3,
  TNK_Q5_0 = 6,
  TNK_Q5_1 = 7,
  TNK_Q8_0 = 8,
  TNK_Q2_K = 10,
  TNK_Q3_K = 11,
  TNK_Q4_K = 12,
  TNK_Q5_K = 13,
  TNK_Q6_K = 14,
  TNK_IQ4_NL = 20,
  TNK_IQ4_XS = 23,
  TNK_I8 = 24,
  TNK_I16 = 25,
  TNK_I32 = 26,
  TNK_I64 = 27,
  TNK_F64 = 28,
  TNK_BF16 = 30
};

typedef struct tnk_dtype_info {
  const char *name;     /* lower case; NULL for an unknown dtype */
  uint32_t block;       /* elements in a block */
  uint32_t block_bytes; /* bytes of a block */
  bool decodes;         /* tnk_decode knows it: all but the integers and f64 */
} tnk_dtype_info;

/* Facts of a dtype; name is NULL when the number is unknown. */
tnk_dtype_info tnk_dtype(uint32_t dtype);

/* Decodes n elements (a multiple of the block) from src to dst exactly as the format defines, in f32.
 * Returns false for a dtype that has no decoder. */
bool tnk_decode(uint32_t dtype, const void *src, float *dst, size_t n);

/* IEEE half and bfloat16, explicit round to nearest even; subnormals are kept, overflow gives infinity, a NaN stays a
 * quiet NaN with the upper bits of its payload; scalar code, the same bits everywhere. */
float tnk_f16_to_f32(uint16_t h);
uint16_t tnk_f32_to_f16(float f);
float tnk_bf16_to_f32(uint16_t b);
uint16_t tnk_f32_to_bf16(float f);

#endif
