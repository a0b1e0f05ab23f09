/* isa: what CPUID says, leaf 1 and leaf 7, and the register state that the operating system saves (XCR0). */
#include "isa.h"

#include <stddef.h>

#if defined(__x86_64__)
#include <cpuid.h>

/* XCR0 bits: xmm and ymm; opmask, upper zmm, zmm16..31. */
enum { XCR0_YMM = 0x06, XCR0_ZMM = 0xE6 };

static unsigned xcr0(void)
{
  unsigned lo, hi;
  __asm__("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
  return lo;
}

bool tnk_isa_runs(int isa)
{
  unsigned a, b, c, d, b7 = 0, c7 = 0, a71 = 0, ignore;
  if (isa == TNK_ISA_SCALAR) return true;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return false;
  const bool fma = c >> 12 & 1, osxsave = c >> 27 & 1, avx = c >> 28 & 1, f16c = c >> 29 & 1;
  if (!fma || !osxsave || !avx || !f16c || (xcr0() & XCR0_YMM) != XCR0_YMM) return false;
  if (!__get_cpuid_count(7, 0, &a, &b7, &c7, &d)) return false;
  if (!(b7 >> 5 & 1)) return false;
  if (isa == TNK_ISA_AVX2) return true;
  if (isa == TNK_ISA_AVXVNNI) return a >= 1 && __get_cpuid_count(7, 1, &a71, &b, &ignore, &d) && (a71 >> 4 & 1);
  const bool f = b7 >> 16 & 1, dq = b7 >> 17 & 1, bw = b7 >> 30 & 1, vl = b7 >> 31 & 1;
  if (!f || !dq || !bw || !vl || (xcr0() & XCR0_ZMM) != XCR0_ZMM) return false;
  if (isa == TNK_ISA_AVX512) return true;
  return isa == TNK_ISA_AVX512VNNI && (c7 >> 11 & 1);
}
#else
bool tnk_isa_runs(int isa) { return isa == TNK_ISA_SCALAR; }
#endif

const char *tnk_isa_name(int isa)
{
  static const char *const names[TNK_ISA_COUNT] = {"scalar", "avx2", "avxvnni", "avx512", "avx512vnni"};
  return isa >= 0 && isa < TNK_ISA_COUNT ? names[isa] : NULL;
}

int tnk_isa_best(void)
{
  int best = TNK_ISA_SCALAR;
  for (int isa = 0; isa < TNK_ISA_COUNT; isa++) {
    if (tnk_isa_runs(isa)) best = isa;
  }
  return best;
}
