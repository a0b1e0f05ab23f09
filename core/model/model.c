/* model: see model.h. Opening is the steps of arch_int.h, in order. */
#include "model.h"

#include <stdlib.h>
#include <string.h>

#include "arch_int.h"

static tn_status find_arch(tn_model *m, tn_err *err)
{
  tn_str name;
  const char *path = tn_gguf_path(m->gguf);
  if (!tn_gguf_string(m->gguf, "general.architecture", &name))
    return tn_fail(err, TN_E_ARG, "%s: general.architecture is missing or not a string", path);
  m->arch = tn_arch_find(name);
  return m->arch ? TN_OK : tn_arch_unknown(path, name, err);
}

/* Takes g over, also on failure. */
static tn_status open_gguf(tn_gguf *g, tn_progress_fn progress, void *ctx, tn_model **out, tn_err *err)
{
  tn_model_own *own = tn_zalloc(1, sizeof *own);
  tn_status st;
  if (!own) {
    st = tn_fail(err, TN_E_NOMEM, "%s: no memory", tn_gguf_path(g));
    tn_gguf_close(g);
    return st;
  }
  own->m.gguf = g;
  st = find_arch(&own->m, err);
  if (!st) st = tn_arch_read_meta(own, err);
  if (!st) st = tn_arch_read_tensors(own, progress, ctx, err);
  if (!st) st = tn_arch_read_factors(own, err);
  if (st)
    tn_model_close(&own->m);
  else
    *out = &own->m;
  return st;
}

tn_status tn_model_open(const char *path, tn_progress_fn progress, void *ctx, tn_model **out, tn_err *err)
{
  tn_gguf *g = NULL;
  *out = NULL;
  tn_status st = tn_gguf_open(path, &g, err);
  return st ? st : open_gguf(g, progress, ctx, out, err);
}

tn_status tn_model_open_mem(const void *bytes, size_t n, const char *name, tn_model **out, tn_err *err)
{
  tn_gguf *g = NULL;
  *out = NULL;
  tn_status st = tn_gguf_open_mem(bytes, n, name, &g, err);
  return st ? st : open_gguf(g, NULL, NULL, out, err);
}

void tn_model_close(tn_model *m)
{
  if (!m) return;
  tn_model_own *own = (tn_model_own *)(void *)m; /* m is its first member */
  free(own->layer_class);
  free(own->class_window);
  free(own->class_base);
  free(own->rope);
  free(own->scaling);
  free(own->tensors);
  tn_gguf_close(m->gguf);
  free(own);
}

int64_t tn_model_dim(const tn_model *m, uint32_t dim)
{
  const tn_model_shape *s = &m->shape;
  switch (dim) {
    case TN_DIM_D: return s->d_model;
    case TN_DIM_Q: return (int64_t)s->n_heads * s->d_head;
    case TN_DIM_KV: return (int64_t)s->n_kv_heads * s->d_head;
    case TN_DIM_DH: return s->d_head;
    case TN_DIM_FF: return s->d_ff;
    case TN_DIM_VOCAB: return s->n_vocab;
    case TN_DIM_ROPE_HALF: return s->rope_dims / 2;
    default: return 1;
  }
}

uint32_t tn_model_segments(const tn_model *m, int64_t k)
{
  uint32_t g = m->shape.n_kv_heads;
  return k % ((int64_t)g * 32) == 0 ? g : 1;
}
