/* wcache: what a backend makes of one model's weights, kept in a file for the next process. The state behind the service
 * "tenon.cache/1" of one rank.
 *
 * The file's name is its key: the caller's digest of all that decides what the backend makes. get() finds what an earlier
 * process put, mapped and shared; what is missing or damaged is made again, put, and the file is replaced. Nothing here is
 * an error: a folder that cannot be written, a disk that is full, a file that is damaged cost time only, and one line at
 * TN_LOG_INFO says so.
 *
 * Thread rule: the engine thread, not inside a gang. */
#ifndef TN_CORE_HOST_WCACHE_H
#define TN_CORE_HOST_WCACHE_H

#include "pool.h"

typedef struct tn_wcache tn_wcache;

typedef struct tn_wcache_cfg {
  const char *dir; /* copied */
  uint8_t key[32];
  uint64_t limit_bytes;                                   /* of all files of the folder; 0: no limit */
  tn_pool *pool;                                          /* for check sums; NULL: the caller alone. Until close */
  void (*log)(void *ctx, int32_t level, const char *msg); /* NULL: none. Until close */
  void *log_ctx;
} tn_wcache_cfg;

/* NULL: no memory; nothing is kept then. */
tn_wcache *tn_wcache_open(const tn_wcache_cfg *cfg);

/* Is there a file to get from? */
bool tn_wcache_reads(const tn_wcache *w);

/* See tn_svc_cache. What get returns stays until close. */
const void *tn_wcache_get(tn_wcache *w, const char *form, const char *key, uint64_t bytes);
void tn_wcache_put(tn_wcache *w, const char *form, const char *key, const void *p, uint64_t bytes);

/* All weights are loaded: completes the file where something was put, and says what came of it. */
void tn_wcache_done(tn_wcache *w);

/* Without done, what was put is forgotten. Accepts NULL. */
void tn_wcache_close(tn_wcache *w);

#endif
