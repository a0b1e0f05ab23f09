/* arch_meta: the numbers of a model file, each checked before use. */
#include "arch_int.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

void tn_arch_key(const tn_model *m, const char *suffix, char *buf, size_t n)
{
  snprintf(buf, n, "%s.%s", m->arch->name, suffix);
}

/* A key that is not there, or there with a type that the look-up does not convert. */
static tn_status absent(const tn_model *m, const char *key, bool required, const char *want, tn_err *err)
{
  if (tn_gguf_has(m->gguf, key)) return tn_fail(err, TN_E_ARG, "%s: %s is not %s", tn_gguf_path(m->gguf), key, want);
  if (required) return tn_fail(err, TN_E_ARG, "%s: %s is missing", tn_gguf_path(m->gguf), key);
  return TN_OK;
}

tn_status tn_arch_count(const tn_model *m, const char *suffix, bool required, uint64_t lo, uint64_t hi, uint32_t *out,
                        tn_err *err)
{
  char key[128];
  uint64_t v = 0;
  tn_arch_key(m, suffix, key, sizeof key);
  if (!tn_gguf_u64(m->gguf, key, &v)) return absent(m, key, required, "one whole number >= 0", err);
  if (v < lo || v > hi)
    return tn_fail(err, TN_E_ARG, "%s: %s is %" PRIu64 ", allowed are %" PRIu64 " to %" PRIu64, tn_gguf_path(m->gguf),
                   key, v, lo, hi);
  *out = (uint32_t)v;
  return TN_OK;
}

tn_status tn_arch_real(const tn_model *m, const char *suffix, bool required, double lo, double hi, double *out,
                       tn_err *err)
{
  char key[128];
  double v = 0;
  tn_arch_key(m, suffix, key, sizeof key);
  if (!tn_gguf_f64(m->gguf, key, &v)) return absent(m, key, required, "a number", err);
  if (!(v >= lo && v <= hi))
    return tn_fail(err, TN_E_ARG, "%s: %s is %g, allowed are %g to %g", tn_gguf_path(m->gguf), key, v, lo, hi);
  *out = v;
  return TN_OK;
}

/* Heads, their width, and how many share a KV head. */
static tn_status read_heads(tn_model *m, tn_err *err)
{
  tn_model_shape *s = &m->shape;
  const char *a = m->arch->name, *path = tn_gguf_path(m->gguf);
  tn_status st;
  if ((st = tn_arch_count(m, "attention.head_count", true, 1, TN_MAX_HEADS, &s->n_heads, err))) return st;
  s->n_kv_heads = s->n_heads;
  if ((st = tn_arch_count(m, "attention.head_count_kv", false, 1, s->n_heads, &s->n_kv_heads, err))) return st;
  if (s->n_heads % s->n_kv_heads)
    return tn_fail(err, TN_E_ARG, "%s: %s.attention.head_count is %u, not a multiple of %s.attention.head_count_kv, %u",
                   path, a, s->n_heads, a, s->n_kv_heads);
  s->d_head = 0;
  if ((st = tn_arch_count(m, "attention.key_length", false, 1, TN_MAX_HEAD_DIM, &s->d_head, err))) return st;
  if (s->d_head == 0) {
    s->d_head = s->d_model / s->n_heads;
    if (s->d_model % s->n_heads || s->d_head > TN_MAX_HEAD_DIM)
      return tn_fail(err, TN_E_ARG,
                     "%s: %s.attention.key_length is missing, and %s.embedding_length %u over "
                     "%s.attention.head_count %u is not a whole head width up to %d",
                     path, a, a, s->d_model, a, s->n_heads, TN_MAX_HEAD_DIM);
  }
  uint32_t d_v = s->d_head;
  if ((st = tn_arch_count(m, "attention.value_length", false, 1, TN_MAX_HEAD_DIM, &d_v, err))) return st;
  if (d_v != s->d_head)
    return tn_fail(err, TN_E_UNSUPPORTED,
                   "%s: %s.attention.value_length is %u, the width of keys is %u; Tenon runs "
                   "models in which they are equal",
                   path, a, d_v, s->d_head);
  s->rope_dims = s->d_head;
  if ((st = tn_arch_count(m, "rope.dimension_count", false, 2, s->d_head, &s->rope_dims, err))) return st;
  if (s->rope_dims % 2)
    return tn_fail(err, TN_E_ARG, "%s: rotated dimensions are pairs, but there are %u", path, s->rope_dims);
  return TN_OK;
}

/* eps, scales and soft caps. */
static tn_status read_scales(tn_model *m, tn_err *err)
{
  const tn_model_shape *s = &m->shape;
  tn_status st;
  double scale = 0, cap = 0, final = 0;
  if ((st = tn_arch_real(m, "attention.layer_norm_rms_epsilon", true, 1e-20, 1, &m->norm_eps, err))) return st;
  if ((st = tn_arch_real(m, "attention.scale", false, 0, 1e6, &scale, err))) return st;
  if ((st = tn_arch_real(m, "attn_logit_softcapping", false, 0, 1e6, &cap, err))) return st;
  if ((st = tn_arch_real(m, "final_logit_softcapping", false, 0, 1e6, &final, err))) return st;
  if (scale == 0) {
    uint32_t width = m->arch->n_layers_wide_scale == s->n_layers ? s->d_model / s->n_heads : s->d_head;
    scale = 1 / sqrt((double)width);
  }
  m->attn_scale = (float)scale;
  m->attn_softcap = (float)cap;
  m->final_softcap = (float) final;
  m->embed_scale = m->arch->scale_embedding ? sqrt((double)s->d_model) : 1;
  return TN_OK;
}

tn_status tn_arch_read_meta(tn_model_own *own, tn_err *err)
{
  tn_model *m = &own->m;
  tn_model_shape *s = &m->shape;
  uint32_t experts = 0;
  tn_status st;
  s->struct_size = sizeof *s;
  s->arch = m->arch->name;
  if ((st = tn_arch_count(m, "expert_count", false, 0, UINT32_MAX, &experts, err))) return st;
  if (experts)
    return tn_fail(err, TN_E_UNSUPPORTED, "%s: %s.expert_count is %u; mixtures of experts are not supported",
                   tn_gguf_path(m->gguf), s->arch, experts);
  if ((st = tn_arch_count(m, "block_count", true, 1, TN_MAX_LAYERS, &s->n_layers, err))) return st;
  if ((st = tn_arch_count(m, "embedding_length", true, 1, TN_MAX_WIDTH, &s->d_model, err))) return st;
  if ((st = tn_arch_count(m, "feed_forward_length", true, 1, TN_MAX_WIDTH, &s->d_ff, err))) return st;
  if ((st = tn_arch_count(m, "context_length", true, 1, INT32_MAX, &s->n_ctx_train, err))) return st;
  if ((st = read_heads(m, err))) return st;
  if ((st = read_scales(m, err))) return st;
  return tn_arch_read_classes(own, err);
}
