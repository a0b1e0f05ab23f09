/* arena: memory that is given back all at once. */
#include <stdlib.h>

#include "chat/jinja.h"

struct tn_arena_block {
  tn_arena_block *next;
  size_t used, cap;
  max_align_t data[];
};

enum { BLOCK = 1 << 14, ALIGN = sizeof(max_align_t) };

void *tn_arena_alloc(tn_arena *a, size_t bytes)
{
  if (bytes > a->limit || a->used > a->limit - bytes) return NULL;
  bytes = (bytes + ALIGN - 1) / ALIGN * ALIGN;
  tn_arena_block *b = a->blocks;
  if (!b || b->cap - b->used < bytes) {
    size_t cap = bytes > BLOCK ? bytes : BLOCK;
    tn_arena_block *fresh = calloc(1, sizeof *fresh + cap);
    if (!fresh) return NULL;
    fresh->cap = cap;
    if (b && bytes > BLOCK) { /* a big one of its own: the block at hand stays in use */
      fresh->next = b->next;
      b->next = fresh;
    } else {
      fresh->next = b;
      a->blocks = fresh;
    }
    b = fresh;
  }
  void *p = (char *)b->data + b->used;
  b->used += bytes;
  a->used += bytes;
  return p;
}

void tn_arena_free(tn_arena *a)
{
  for (tn_arena_block *b = a->blocks, *next; b; b = next) {
    next = b->next;
    free(b);
  }
  a->blocks = NULL;
}
