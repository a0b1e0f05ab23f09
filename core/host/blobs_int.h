/* blobs_int: the header of a file of blobs. Private to blobs*.c and their tests. */
#ifndef TN_CORE_HOST_BLOBS_INT_H
#define TN_CORE_HOST_BLOBS_INT_H

#include "blobs.h"

#define TN_BLOBS_MAGIC "TENONBL1"

typedef struct tn_blobs_head { /* as in the file, little-endian */
  char magic[8];
  uint64_t file_bytes, n, index_at;
  uint8_t key[32];
  uint8_t index_sum[32]; /* SHA-256 of the index */
  uint8_t head_sum[32];  /* SHA-256 of what is before it */
} tn_blobs_head;
_Static_assert(sizeof(tn_blobs_head) == 128 && sizeof(tn_blob) == 64, "the file has no padding");

/* Sets head_sum; and whether it is right. */
void tn_blobs_seal(tn_blobs_head *h);
bool tn_blobs_sealed(const tn_blobs_head *h);

#endif
