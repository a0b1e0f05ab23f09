/* arch_classes: which layers have a window, which rope base, and what the file says about rope scaling.
 *
 * A class is a set of layers with the same window and rope base: one for most models, two for Gemma (local layers see a
 * window and have a rope base of their own, without scaling; global ones see all). */
#include "arch_int.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Which layers are local: local[n_layers]. The file gives a pattern as a number n (each n-th layer is global) or as one
 * flag for each layer; else the architecture's n holds. */
static tn_status read_pattern(const tn_model *m, bool *local, tn_err *err)
{
  static const char suffix[] = "attention.sliding_window_pattern";
  uint32_t n = m->shape.n_layers, every = m->arch->window_pattern;
  tn_gguf_arr arr;
  char key[128];
  tn_arch_key(m, suffix, key, sizeof key);
  if (!tn_gguf_array(m->gguf, key, &arr)) {
    tn_status st = tn_arch_count(m, suffix, false, 0, TN_MAX_LAYERS, &every, err);
    if (st) return st;
    for (uint32_t i = 0; i < n; i++) local[i] = every == 0 || i % every < every - 1;
    return TN_OK;
  }
  if (arr.n < n)
    return tn_fail(err, TN_E_ARG, "%s: %s has %llu flags for %u layers", tn_gguf_path(m->gguf), key,
                   (unsigned long long)arr.n, n);
  for (uint32_t i = 0; i < n; i++) {
    uint64_t u = 0;
    if (tn_gguf_arr_bool(&arr, i, &local[i])) continue;
    if (!tn_gguf_arr_u64(&arr, i, &u) || u > 1)
      return tn_fail(err, TN_E_ARG, "%s: %s holds something else than one flag for each layer", tn_gguf_path(m->gguf),
                     key);
    local[i] = u == 1;
  }
  return TN_OK;
}

/* The metadata of rope scaling, as in the file, into q; the word into own->scaling. */
static tn_status read_scaling(tn_model_own *own, tn_rope_query *q, tn_err *err)
{
  const tn_model *m = &own->m;
  tn_str word = {"", 0};
  char key[128];
  uint32_t orig = (uint32_t)q->n_ctx_train;
  tn_status st;
  if ((st = tn_arch_real(m, "rope.scaling.factor", false, 0, 1e9, &q->factor, err))) return st;
  if (q->factor == 0 && (st = tn_arch_real(m, "rope.scale_linear", false, 0, 1e9, &q->factor, err))) return st;
  if ((st = tn_arch_real(m, "rope.scaling.attn_factor", false, 0, 1e9, &q->attn_factor, err))) return st;
  if (q->attn_factor == 0 &&
      (st = tn_arch_real(m, "rope.scaling.yarn_attn_factor", false, 0, 1e9, &q->attn_factor, err)))
    return st;
  if ((st = tn_arch_real(m, "rope.scaling.yarn_beta_fast", false, 0, 1e9, &q->beta_fast, err))) return st;
  if ((st = tn_arch_real(m, "rope.scaling.yarn_beta_slow", false, 0, 1e9, &q->beta_slow, err))) return st;
  if ((st = tn_arch_count(m, "rope.scaling.original_context_length", false, 1, INT32_MAX, &orig, err))) return st;
  q->n_ctx_orig = orig;
  tn_arch_key(m, "rope.scaling.type", key, sizeof key);
  bool said = tn_gguf_string(m->gguf, key, &word);
  if (said && word.n == 4 && memcmp(word.p, "none", 4) == 0) word.n = 0;
  /* A factor without a word is linear scaling: the field's convention. */
  if (!said && q->factor != 0 && q->factor != 1) word = (tn_str){"linear", 6};
  own->scaling = tn_strndup(word.p, word.n);
  if (!own->scaling) return tn_fail(err, TN_E_NOMEM, "%s: no memory", tn_gguf_path(m->gguf));
  q->scaling = own->scaling;
  return TN_OK;
}

/* Class c of layers with this window (0: none). */
static tn_rope_query plain_query(const tn_model *m, uint32_t c, double base)
{
  tn_rope_query q = {.struct_size = sizeof q, .dims = m->shape.rope_dims, .cls = c, .base = base, .scaling = ""};
  q.n_ctx_train = q.n_ctx_orig = m->shape.n_ctx_train;
  return q;
}

/* Numbers the classes by their first layer. */
static void assign(tn_model_own *own, const bool *local, int64_t window, double base, double base_local)
{
  tn_model_shape *s = &own->m.shape;
  for (uint32_t i = 0; i < s->n_layers; i++) {
    bool l = local[i] && window > 0;
    int64_t w = l ? window : 0;
    uint32_t c = 0;
    while (c < s->n_classes && own->class_window[c] != w) c++;
    if (c == s->n_classes) {
      own->class_window[c] = w;
      own->class_base[c] = l ? base_local : base;
      own->rope[c] = plain_query(&own->m, c, own->class_base[c]);
      s->n_classes++;
    }
    own->layer_class[i] = c;
  }
}

tn_status tn_arch_read_classes(tn_model_own *own, tn_err *err)
{
  tn_model *m = &own->m;
  tn_model_shape *s = &m->shape;
  double base = m->arch->rope_base, base_local = m->arch->rope_base_local;
  uint32_t window = 0;
  tn_status st = TN_OK;
  bool *local = tn_zalloc(s->n_layers, sizeof *local);
  own->layer_class = tn_zalloc(s->n_layers, sizeof *own->layer_class);
  own->class_window = tn_zalloc(2, sizeof *own->class_window);
  own->class_base = tn_zalloc(2, sizeof *own->class_base);
  own->rope = tn_zalloc(2, sizeof *own->rope);
  if (!local || !own->layer_class || !own->class_window || !own->class_base || !own->rope) {
    st = tn_fail(err, TN_E_NOMEM, "%s: no memory for %u layers", tn_gguf_path(m->gguf), s->n_layers);
    goto done;
  }
  s->layer_class = own->layer_class;
  s->class_window = own->class_window;
  s->class_rope_base = own->class_base;
  m->rope = own->rope;
  if ((st = tn_arch_real(m, "rope.freq_base", false, 1, 1e15, &base, err))) goto done;
  if ((st = tn_arch_real(m, "rope.freq_base_swa", false, 1, 1e15, &base_local, err))) goto done;
  if (m->arch->window_pattern) {
    if ((st = tn_arch_count(m, "attention.sliding_window", false, 0, INT32_MAX, &window, err))) goto done;
    if ((st = read_pattern(m, local, err))) goto done;
  }
  assign(own, local, window, base, base_local);
  for (uint32_t c = 0; c < s->n_classes && !st; c++)
    if (own->class_window[c] == 0) st = read_scaling(own, &own->rope[c], err);
done:
  free(local);
  return st;
}

/* The f32 values of a factor tensor, all finite and positive; NULL when the model has none. */
static tn_status factors(const tn_model *m, uint32_t part, const float **out, tn_err *err)
{
  const tn_gguf_tensor *t = tn_model_tensor(m, part, 0);
  if (!t) return TN_OK;
  if (t->dtype != TN_DT_F32)
    return tn_fail(err, TN_E_UNSUPPORTED, "%s: %s.weight is of type %u, rope factors are f32 (0)",
                   tn_gguf_path(m->gguf), tn_part(part)->file, t->dtype);
  const float *f = (const float *)(const void *)t->data;
  for (int64_t i = 0; i < t->ne[0]; i++)
    if (!isfinite(f[i]) || f[i] <= 0)
      return tn_fail(err, TN_E_ARG, "%s: %s.weight[%lld] is %g, rope factors are positive", tn_gguf_path(m->gguf),
                     tn_part(part)->file, (long long)i, (double)f[i]);
  *out = f;
  return TN_OK;
}

tn_status tn_arch_read_factors(tn_model_own *own, tn_err *err)
{
  const tn_model *m = &own->m;
  const float *freqs = NULL, *lng = NULL, *shrt = NULL;
  tn_status st;
  if ((st = factors(m, TN_PART_ROPE_FREQS, &freqs, err))) return st;
  if ((st = factors(m, TN_PART_ROPE_LONG, &lng, err))) return st;
  if ((st = factors(m, TN_PART_ROPE_SHORT, &shrt, err))) return st;
  for (uint32_t c = 0; c < m->shape.n_classes; c++) {
    if (own->class_window[c]) continue;
    own->rope[c].factors_long = lng ? lng : freqs;
    own->rope[c].factors_short = shrt ? shrt : freqs;
    /* Files with a list for long texts often leave the word out. */
    if (lng && !own->rope[c].scaling[0]) own->rope[c].scaling = "longrope";
  }
  return TN_OK;
}
