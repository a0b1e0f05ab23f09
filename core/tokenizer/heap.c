/* heap: binary heap of merges that wait, lowest key on top. */
#include "tok_int.h"

void tn_heap_push(tn_tok_job *job, tn_tok_cand c)
{
  tn_tok_cand *h = job->heap;
  size_t i = job->heap_n++;
  while (i > 0) {
    size_t up = (i - 1) / 2;
    if (h[up].key <= c.key) break;
    h[i] = h[up];
    i = up;
  }
  h[i] = c;
}

tn_tok_cand tn_heap_pop(tn_tok_job *job)
{
  tn_tok_cand *h = job->heap;
  tn_tok_cand top = h[0], last = h[--job->heap_n];
  size_t n = job->heap_n, i = 0;
  for (;;) {
    size_t down = 2 * i + 1;
    if (down >= n) break;
    if (down + 1 < n && h[down + 1].key < h[down].key) down++;
    if (last.key <= h[down].key) break;
    h[i] = h[down];
    i = down;
  }
  h[i] = last;
  return top;
}
