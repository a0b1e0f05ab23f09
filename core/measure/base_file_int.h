/* base_file_int: what the reader and the writer of base files share. See base_file.h. */
#ifndef TN_CORE_MEASURE_BASE_FILE_INT_H
#define TN_CORE_MEASURE_BASE_FILE_INT_H

#include "base_file.h"

#define TN_BASE_LLAMA "_logits_"
#define TN_BASE_COMPACT "TNKLDB1\n"
enum { TN_BASE_MAGIC = 8, TN_BASE_REACH = 16 }; /* logits farther below the largest are as good as 0 */

/* Bytes of one row, and of a chunk's rows. */
static inline size_t tn_base_row_bytes(const tn_base_info *i)
{
  return i->k ? 8 + 8 * (size_t)i->k : 8 + 2 * (((size_t)i->n_vocab + 1) / 2 * 2);
}
static inline uint64_t tn_base_rows(const tn_base_info *i) { return (uint64_t)i->n_ctx - 1 - i->n_prompt; }
static inline uint64_t tn_base_head_bytes(const tn_base_info *i)
{
  return (i->k ? 32u : 20u) + 4 * (uint64_t)i->n_ctx * i->n_chunks;
}

#endif
