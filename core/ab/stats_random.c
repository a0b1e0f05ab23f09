/* stats_random: the stream of random numbers behind stats.h and the order of blocks. */
#include "ab/stats.h"
#include "host/rng.h"

tn_stat_rng tn_stat_rng_of(uint64_t seed, uint32_t stream) { return (tn_stat_rng){.seed = seed, .stream = stream}; }

uint32_t tn_stat_next(tn_stat_rng *r)
{
  if (r->left == 0) {
    uint32_t counter[4] = {(uint32_t)r->at, (uint32_t)(r->at >> 32), r->stream, 0x6162u};
    tn_philox(r->seed, counter, r->block);
    r->at++;
    r->left = 4;
  }
  return r->block[--r->left];
}

uint32_t tn_stat_below(tn_stat_rng *r, uint32_t n) { return (uint32_t)((uint64_t)tn_stat_next(r) * n >> 32); }
