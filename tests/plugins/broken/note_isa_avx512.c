/* note_isa_avx512: needs AVX-512; its constructor must not run on a machine without. */
#define NAME "note_isa_avx512"
#define NOTE_ISA TN_ISA_AVX512
#include "sentinel.h"
#include "base.h"
