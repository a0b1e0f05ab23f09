/* wcache: see wcache.h. */
#include "wcache.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "blobs.h"
#include "cache_dir.h"
#include "sha256.h"

struct tn_wcache {
  tn_wcache_cfg cfg; /* dir is the one below */
  char *dir, *path;
  tn_blobs *in;      /* NULL: there is no file */
  tn_blobs_out *out; /* NULL: nothing was put */
  bool off;          /* nothing more is written */
  uint64_t n_got, got_bytes;
};

static void say(const tn_wcache *w, const char *fmt, ...) TN_PRINTF(2, 3);
static void say(const tn_wcache *w, const char *fmt, ...)
{
  char line[1024] = "weights: packed cache ";
  size_t n = strlen(line);
  va_list ap;
  if (!w->cfg.log) return;
  va_start(ap, fmt);
  vsnprintf(line + n, sizeof line - n, fmt, ap);
  va_end(ap);
  w->cfg.log(w->cfg.log_ctx, TN_LOG_INFO, line);
}

static double mib(uint64_t bytes) { return (double)bytes / 1048576; }

static void blob_id(const char *form, const char *key, uint8_t id[32])
{
  tn_sha256 sha;
  tn_sha256_init(&sha);
  tn_sha256_update(&sha, form, strlen(form) + 1);
  tn_sha256_update(&sha, key, strlen(key) + 1);
  tn_sha256_final(&sha, id);
}

tn_wcache *tn_wcache_open(const tn_wcache_cfg *cfg)
{
  tn_err err = tn_err_init();
  tn_wcache *w = tn_zalloc(1, sizeof *w);
  if (!w) return NULL;
  w->cfg = *cfg;
  w->cfg.dir = w->dir = tn_strdup(cfg->dir);
  w->path = tn_cache_path(cfg->dir, cfg->key);
  if (!w->dir || !w->path) {
    tn_wcache_close(w);
    return NULL;
  }
  if (tn_blobs_open(w->path, cfg->key, &w->in, &err) == TN_E_ARG) say(w, "is not used: %s", err.msg);
  return w;
}

bool tn_wcache_reads(const tn_wcache *w) { return w->in != NULL; }

const void *tn_wcache_get(tn_wcache *w, const char *form, const char *key, uint64_t bytes)
{
  uint8_t id[32];
  if (!w->in) return NULL;
  blob_id(form, key, id);
  const tn_blob *b = tn_blobs_find(w->in, id);
  if (!b || b->bytes != bytes) return NULL;
  const void *p = tn_blobs_data(w->in, b);
  if (tn_blob_sum(p, bytes, w->cfg.pool) != b->sum) {
    say(w, "%s: %s is damaged there and is packed again", w->path, key);
    return NULL;
  }
  w->n_got++;
  w->got_bytes += bytes;
  return p;
}

/* ---------------------------------------------------------------- writing */

static void give_up(tn_wcache *w)
{
  tn_blobs_discard(w->out);
  w->out = NULL;
  w->off = true;
}

/* Whether bytes more may be written: within the limit, and a twentieth of the disk stays free. */
static bool has_room(const tn_wcache *w, uint64_t bytes)
{
  uint64_t all = tn_blobs_written(w->out) + bytes;
  struct statvfs fs;
  if (w->cfg.limit_bytes && all > w->cfg.limit_bytes) {
    say(w, "is not written: it would take more than %.1f MiB, the limit", mib(w->cfg.limit_bytes));
    return false;
  }
  if (statvfs(w->dir, &fs) != 0 || bytes / fs.f_frsize + fs.f_blocks / 20 < fs.f_bavail) return true;
  say(w, "is not written: the disk of %s is almost full", w->dir);
  return false;
}

static bool begin(tn_wcache *w)
{
  tn_err err = tn_err_init();
  tn_status st = tn_cache_dir_make(w->dir, &err);
  if (st == TN_OK) st = tn_blobs_create(w->path, w->cfg.key, &w->out, &err);
  if (st != TN_OK) say(w, "is not written: %s", err.msg);
  return st == TN_OK;
}

static void add(tn_wcache *w, const tn_blob *like, const void *p)
{
  tn_err err = tn_err_init();
  if (!has_room(w, like->bytes)) {
    give_up(w);
  } else if (tn_blobs_add(w->out, like, p, &err) != TN_OK) {
    say(w, "is not written: %s", err.msg);
    give_up(w);
  }
}

void tn_wcache_put(tn_wcache *w, const char *form, const char *key, const void *p, uint64_t bytes)
{
  tn_blob like = {.bytes = bytes};
  if (w->off) return;
  if (!w->out && !begin(w)) {
    give_up(w);
    return;
  }
  blob_id(form, key, like.id);
  if (tn_blobs_has(w->out, like.id)) return;
  like.sum = tn_blob_sum(p, bytes, w->cfg.pool);
  add(w, &like, p);
}

/* What the old file has and the new one lacks. */
static void take_over(tn_wcache *w)
{
  for (uint64_t i = 0; w->in && w->out && i < tn_blobs_n(w->in); i++) {
    const tn_blob *b = tn_blobs_at(w->in, i);
    const void *p = tn_blobs_data(w->in, b);
    if (!tn_blobs_has(w->out, b->id) && tn_blob_sum(p, b->bytes, w->cfg.pool) == b->sum) add(w, b, p);
  }
}

void tn_wcache_done(tn_wcache *w)
{
  tn_err err = tn_err_init();
  if (w->n_got) say(w, "hit %s, %.1f MiB", w->path, mib(w->got_bytes));
  take_over(w);
  if (!w->out) return;
  uint64_t bytes = tn_blobs_written(w->out);
  tn_status st = tn_blobs_finish(w->out, &err);
  w->out = NULL;
  w->off = true;
  if (st != TN_OK) {
    say(w, "is not written: %s", err.msg);
    return;
  }
  uint64_t gone = tn_cache_trim(w->dir, w->cfg.limit_bytes, w->path);
  say(w, "written %s, %.1f MiB", w->path, mib(bytes));
  if (gone)
    say(w, "had %.1f MiB of other models, which are deleted for its limit of %.1f MiB", mib(gone),
        mib(w->cfg.limit_bytes));
}

void tn_wcache_close(tn_wcache *w)
{
  if (!w) return;
  tn_blobs_discard(w->out);
  tn_blobs_close(w->in);
  free(w->dir);
  free(w->path);
  free(w);
}
