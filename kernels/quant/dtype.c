/* dtype: facts of the element types. */
#include "dtype.h"

tnk_dtype_info tnk_dtype(uint32_t dtype)
{
  switch (dtype) {
    case TNK_F32: return (tnk_dtype_info){"f32", 1, 4, true};
    case TNK_F16: return (tnk_dtype_info){"f16", 1, 2, true};
    case TNK_BF16: return (tnk_dtype_info){"bf16", 1, 2, true};
    case TNK_Q4_0: return (tnk_dtype_info){"q4_0", 32, 18, true};
    case TNK_Q4_1: return (tnk_dtype_info){"q4_1", 32, 20, true};
    case TNK_Q5_0: return (tnk_dtype_info){"q5_0", 32, 22, true};
    case TNK_Q5_1: return (tnk_dtype_info){"q5_1", 32, 24, true};
    case TNK_Q8_0: return (tnk_dtype_info){"q8_0", 32, 34, true};
    case TNK_Q2_K: return (tnk_dtype_info){"q2_k", 256, 84, true};
    case TNK_Q3_K: return (tnk_dtype_info){"q3_k", 256, 110, true};
    case TNK_Q4_K: return (tnk_dtype_info){"q4_k", 256, 144, true};
    case TNK_Q5_K: return (tnk_dtype_info){"q5_k", 256, 176, true};
    case TNK_Q6_K: return (tnk_dtype_info){"q6_k", 256, 210, true};
    case TNK_IQ4_NL: return (tnk_dtype_info){"iq4_nl", 32, 18, true};
    case TNK_IQ4_XS: return (tnk_dtype_info){"iq4_xs", 256, 136, true};
    case TNK_I8: return (tnk_dtype_info){"i8", 1, 1, false};
    case TNK_I16: return (tnk_dtype_info){"i16", 1, 2, false};
    case TNK_I32: return (tnk_dtype_info){"i32", 1, 4, false};
    case TNK_I64: return (tnk_dtype_info){"i64", 1, 8, false};
    case TNK_F64: return (tnk_dtype_info){"f64", 1, 8, false};
    default: return (tnk_dtype_info){0};
  }
}
