/* isa: the instruction sets that the kernels exist for, and which of them this processor and kernel run. */
#ifndef TN_KERNELS_CPU_ISA_H
#define TN_KERNELS_CPU_ISA_H

#include <stdbool.h>

enum tnk_isa { /* each one computes the same bits */
               TNK_ISA_SCALAR = 0,
               TNK_ISA_AVX2 = 1,
               TNK_ISA_AVXVNNI = 2,
               TNK_ISA_AVX512 = 3,
               TNK_ISA_AVX512VNNI = 4,
               TNK_ISA_COUNT = 5
};

/* "avx2"; NULL when isa is out of range. */
const char *tnk_isa_name(int isa);

/* The processor has the instructions and the operating system keeps their registers. */
bool tnk_isa_runs(int isa);

/* The fastest one that runs here. */
int tnk_isa_best(void);

#endif
