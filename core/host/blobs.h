/* blobs: a file of byte runs that are found by ids: written once, then mapped read-only by any number of processes.
 *
 *   header    128 bytes: magic, sizes, the key of the whole file, SHA-256 of the index and of the header
 *   runs      each at a multiple of 64 bytes, the first at 4096
 *   index     64 bytes a run: tn_blob
 *
 * A file is made under a temporary name and gets its own when it is complete, so that nobody reads half of one. Nothing
 * is forced onto the disk: each run has a check sum, and whoever uses a run compares it first.
 *
 * Thread rule: one thread at a time uses a tn_blobs or tn_blobs_out; data may be read by any. */
#ifndef TN_CORE_HOST_BLOBS_H
#define TN_CORE_HOST_BLOBS_H

#include "pool.h"

enum { TN_BLOBS_FIRST = 4096, TN_BLOBS_ALIGN = 64 };

typedef struct tn_blob { /* an entry of the index, as in the file */
  uint8_t id[32];
  uint64_t offset, bytes, sum, reserved0; /* sum: tn_blob_sum of its bytes */
} tn_blob;

/* Sum of bytes, the same for any number of threads; any change within one 64-bit word changes it. pool NULL: the caller
 * alone. Not inside a gang. */
uint64_t tn_blob_sum(const void *p, uint64_t bytes, tn_pool *pool);

/* ---------------------------------------------------------------- reading */

typedef struct tn_blobs tn_blobs;

/* Maps the file and checks its header and index, not the runs. It must be the caller's user's own. Its time of last use
 * is set. On failure *out is NULL and *err, which names the file, says why: TN_E_IO it cannot be opened or mapped;
 * TN_E_ARG it is no such file, damaged, or made under another key; TN_E_NOMEM. */
tn_status tn_blobs_open(const char *path, const uint8_t key[32], tn_blobs **out, tn_err *err);
void tn_blobs_close(tn_blobs *b); /* accepts NULL; runs are unmapped */

uint64_t tn_blobs_n(const tn_blobs *b);
const tn_blob *tn_blobs_at(const tn_blobs *b, uint64_t i);             /* i < n */
const tn_blob *tn_blobs_find(const tn_blobs *b, const uint8_t id[32]); /* NULL: not there */
const void *tn_blobs_data(const tn_blobs *b, const tn_blob *of);       /* until close */
uint64_t tn_blobs_bytes(const tn_blobs *b);                            /* of the file */

/* ---------------------------------------------------------------- writing */

typedef struct tn_blobs_out tn_blobs_out;

/* Begins a file that is to be path. On failure *out is NULL: TN_E_IO, TN_E_NOMEM. */
tn_status tn_blobs_create(const char *path, const uint8_t key[32], tn_blobs_out **out, tn_err *err);

/* Appends a run; the bytes are copied. TN_E_IO, TN_E_NOMEM: discard it. */
tn_status tn_blobs_add(tn_blobs_out *o, const tn_blob *like, const void *p, tn_err *err);

bool tn_blobs_has(const tn_blobs_out *o, const uint8_t id[32]);
uint64_t tn_blobs_written(const tn_blobs_out *o); /* bytes of the file so far */

/* Completes the file under its name and frees o, in any case; after a failure there is no file of o. */
tn_status tn_blobs_finish(tn_blobs_out *o, tn_err *err);
void tn_blobs_discard(tn_blobs_out *o); /* accepts NULL */

#endif
