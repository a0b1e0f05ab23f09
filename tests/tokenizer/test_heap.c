/* The heap of waiting merges: comes out in order, whatever the order it went in. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "open_vocab.h"

Test(heap, pops_by_key)
{
  enum { N = 1000 };
  tn_tok_cand room[N];
  tn_tok_job job = {.heap = room, .heap_cap = N};
  uint64_t x = 1, sum = 0, back = 0;
  for (int round = 0; round < 20; round++) {
    size_t n = (size_t)(round * 53) % N;
    for (size_t i = 0; i < n; i++) {
      x = x * 6364136223846793005u + 1442695040888963407u;
      tn_tok_cand c = {.key = x >> (round % 2 ? 20 : 60), .id = (int32_t)i};
      sum += c.key;
      tn_heap_push(&job, c);
    }
    uint64_t last = 0;
    while (job.heap_n > 0) {
      tn_tok_cand c = tn_heap_pop(&job);
      cr_assert(c.key >= last);
      last = c.key;
      back += c.key;
    }
  }
  cr_expect(sum == back && sum > 0);
}
