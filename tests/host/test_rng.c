/* Philox 4x32-10 against the known answers of the Random123 distribution (kat_vectors), and the draws made from it. */
#include "host/rng.h"

#include <criterion/criterion.h>
#include <math.h>

typedef struct answer {
  uint32_t counter[4];
  uint64_t key;
  uint32_t out[4];
} answer;

static const answer known[] = {
    {{0, 0, 0, 0}, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
     0xffffffffffffffff,
     {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
     0x299f31d0a4093822, /* key words a4093822 299f31d0 */
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

Test(host_rng, philox_known_answers)
{
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
    uint32_t out[4];
    tn_philox(known[i].key, known[i].counter, out);
    for (int w = 0; w < 4; w++)
      cr_expect(out[w] == known[i].out[w], "vector %zu word %d: %08x, want %08x", i, w, out[w], known[i].out[w]);
  }
}

Test(host_rng, a_flipped_bit_of_any_input_changes_about_half_of_the_output)
{
  const uint32_t zero[4] = {0};
  uint32_t base[4], out[4];
  tn_philox(0, zero, base);
  for (int bit = 0; bit < 192; bit++) {
    uint32_t counter[4] = {0};
    uint64_t key = bit >= 128 ? (uint64_t)1 << (bit - 128) : 0;
    if (bit < 128) counter[bit / 32] = 1u << (bit % 32);
    tn_philox(key, counter, out);
    int differ = 0;
    for (int w = 0; w < 4; w++) differ += __builtin_popcount(out[w] ^ base[w]);
    cr_expect(differ > 36 && differ < 92, "bit %d: %d of 128 output bits change", bit, differ);
  }
}

/* Kolmogorov-Smirnov distance of n draws from the uniform law, times sqrt(n), over 64 bins' edges. */
static double distance(const uint32_t bins[64], uint32_t n)
{
  double at = 0, worst = 0;
  for (int b = 0; b < 64; b++) {
    at += bins[b];
    double d = fabs(at / n - (b + 1) / 64.0);
    if (d > worst) worst = d;
  }
  return worst * sqrt(n);
}

#define N 100000u

/* Each of the four keys by itself runs through uniform draws in [0, 1). */
Test(host_rng, uniform_in_every_key)
{
  for (int which = 0; which < 4; which++) {
    uint32_t bins[64] = {0};
    double sum = 0, least = 1, most = 0;
    for (uint32_t i = 0; i < N; i++) {
      double u = tn_rng_uniform(which == 0 ? i : 7, which == 1 ? i : 11, which == 2 ? i : 1, which == 3 ? i : 0);
      cr_assert(u >= 0 && u < 1, "%g", u);
      bins[(int)(u * 64)]++;
      sum += u;
      least = u < least ? u : least;
      most = u > most ? u : most;
    }
    cr_expect(distance(bins, N) < 1.95, "key %d: distance %g", which, distance(bins, N)); /* p = 0.001 */
    cr_expect(fabs(sum / N - 0.5) < 0.004, "key %d: mean %g", which, sum / N);
    cr_expect(least < 1e-3 && most > 1 - 1e-3);
  }
}

/* Neighbours in each key are not correlated: of 100000 products of pairs the mean is 0 within 4 sigma. */
Test(host_rng, neighbouring_keys_are_independent)
{
  for (int which = 0; which < 4; which++) {
    double sum = 0;
    for (uint32_t i = 0; i < N; i++) {
      double a = tn_rng_uniform(i, i, 1, i) - 0.5;
      double b = tn_rng_uniform(i + (which == 0), i + (which == 1), 1 + (which == 2), i + (which == 3)) - 0.5;
      sum += a * b * 12;
    }
    cr_expect(fabs(sum / sqrt(N)) < 4, "key %d: correlation %g", which, sum / N);
  }
}

Test(host_rng, a_draw_depends_on_its_keys_alone)
{
  double first = tn_rng_uniform(1, 2, 3, 4);
  for (uint32_t i = 0; i < 100; i++) tn_rng_uniform(i, i, i, i);
  cr_expect(tn_rng_uniform(1, 2, 3, 4) == first);
  cr_expect(tn_rng_uniform(2, 1, 3, 4) != first);
  cr_expect(tn_rng_uniform(1, 2 + ((uint64_t)1 << 32), 3, 4) != first); /* the upper half of a position counts */
}

/* Purposes below TN_RNG_PLUGIN are the host's: a plugin cannot draw from them. */
Test(host_rng, purposes_are_apart)
{
  cr_expect(TN_RNG_SAMPLE < TN_RNG_PLUGIN && TN_RNG_ACCEPT < TN_RNG_PLUGIN && TN_RNG_RESIDUAL < TN_RNG_PLUGIN &&
            TN_RNG_DRAFT < TN_RNG_PLUGIN);
}
