/* exec_wcache: under which key a rank's packed weights are kept: a digest of all that decides what they are.
 *
 *   the model's files     device, inode, size, time of the last change of each part
 *   backend, quantizer    id, version, and size and time of the plugin's file; the quantizer's options. (What a backend
 *                         makes of a weight under its own options is in the `form` that it gives.)
 *   the rank's share      its plan
 */
#include <dlfcn.h>
#include <string.h>
#include <sys/stat.h>

#include "exec_open.h"
#include "sha256.h"

static void add_text(tn_sha256 *h, const char *s) { tn_sha256_update(h, s, strlen(s) + 1); }

/* False: which file the plugin is in cannot be told, so a change of it would go unnoticed. */
static bool add_plugin(tn_sha256 *h, const tn_desc *d)
{
  Dl_info where;
  struct stat sb;
  add_text(h, d->id);
  add_text(h, d->version);
  if (!dladdr(d, &where) || !where.dli_fname || stat(where.dli_fname, &sb) != 0) return false;
  const uint64_t file[] = {(uint64_t)sb.st_size, (uint64_t)sb.st_mtim.tv_sec, (uint64_t)sb.st_mtim.tv_nsec};
  tn_sha256_update(h, file, sizeof file);
  return true;
}

static void add_options(tn_sha256 *h, const tn_desc *d, const tn_value *v)
{
  for (const tn_param *const *p = d->params; p && *p; p++, v++) {
    add_text(h, (*p)->key);
    switch (v->type) {
      case TN_T_STR:
      case TN_T_PATH: add_text(h, v->v.s ? v->v.s : ""); break;
      case TN_T_F64_LIST: tn_sha256_update(h, v->v.list, v->len * sizeof *v->v.list); break;
      default: tn_sha256_update(h, &v->v, sizeof v->v); break;
    }
  }
}

/* What it encodes follows from its options and the tensor alone. */
static bool is_pure(const tn_desc *d)
{
  const tn_quantizer_v1 *q = d->vtable;
  return (d->flags & TN_F_DETERMINISTIC) && !TN_CAN(q, calibrate) && !TN_CAN(q, fold);
}

static bool key_of(const tn_rank *r, uint8_t key[32])
{
  const tn_exec_cfg *c = &r->exec->cfg;
  tn_sha256 h;
  if (!tn_gguf_files(c->model->gguf, key)) return false;
  tn_sha256_init(&h);
  add_text(&h, "tenon packed weights " TN_VERSION);
  tn_sha256_update(&h, key, 32);
  if (!add_plugin(&h, c->backend)) return false;
  if (c->weights) {
    if (!is_pure(c->weights) || !add_plugin(&h, c->weights)) return false;
    add_options(&h, c->weights, c->weights_values);
  }
  tn_sha256_update(&h, &r->par, sizeof r->par);
  tn_sha256_final(&h, key);
  return true;
}

tn_wcache *tn_rank_wcache(const tn_rank *r)
{
  const tn_exec_cfg *c = &r->exec->cfg;
  tn_wcache_cfg cfg = {.dir = c->cache_dir,
                       .limit_bytes = c->cache_limit,
                       .pool = r->services.pool,
                       .log = r->services.log,
                       .log_ctx = r->services.log_ctx};
  return c->cache_dir && key_of(r, cfg.key) ? tn_wcache_open(&cfg) : NULL;
}
