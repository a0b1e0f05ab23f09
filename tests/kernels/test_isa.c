/* Instruction sets: names, and what this processor runs. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "cpu/attend.h"
#include "cpu/isa.h"
#include "cpu/linear.h"
#include "cpu/vec.h"

Test(isa, names)
{
  cr_assert(eq(str, (char *)tnk_isa_name(TNK_ISA_SCALAR), "scalar"));
  cr_assert(eq(str, (char *)tnk_isa_name(TNK_ISA_AVX512VNNI), "avx512vnni"));
  cr_assert(tnk_isa_name(-1) == NULL);
  cr_assert(tnk_isa_name(TNK_ISA_COUNT) == NULL);
}

Test(isa, scalar_runs_everywhere_and_the_best_one_runs)
{
  cr_assert(tnk_isa_runs(TNK_ISA_SCALAR));
  cr_assert(not(tnk_isa_runs(TNK_ISA_COUNT)));
  cr_assert(not(tnk_isa_runs(-1)));
  cr_assert(tnk_isa_runs(tnk_isa_best()));
  if (tnk_isa_runs(TNK_ISA_AVX512VNNI)) cr_assert(tnk_isa_runs(TNK_ISA_AVX512));
  if (tnk_isa_runs(TNK_ISA_AVX512)) cr_assert(tnk_isa_runs(TNK_ISA_AVX2));
  if (tnk_isa_runs(TNK_ISA_AVXVNNI)) cr_assert(tnk_isa_runs(TNK_ISA_AVX2));
}

Test(isa, each_has_kernels)
{
  for (int isa = 0; isa < TNK_ISA_COUNT; isa++) {
    cr_assert(tnk_linear_of(isa)->few[0][0] != NULL);
    cr_assert(tnk_vec_of(isa)->quant != NULL);
    cr_assert(tnk_attend_of(isa)->scores != NULL);
  }
  cr_assert(tnk_linear_of(TNK_ISA_AVX2) != tnk_linear_of(TNK_ISA_SCALAR));
}
