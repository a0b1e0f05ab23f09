/* naive: see naive.h. */
#include "naive.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "quant/dtype.h"

static float **slot_of(naive *x, uint32_t part, uint32_t layer) { return &x->weights[layer * TN_N_PARTS + part]; }

static const float *weight(const naive *x, uint32_t part, uint32_t layer)
{
  return x->weights[layer * TN_N_PARTS + part];
}

static void load(naive *x, uint32_t part, uint32_t layer)
{
  const tn_gguf_tensor *t = tn_model_tensor(x->m, part, layer);
  if (!t) return;
  size_t n = (size_t)t->ne[0] * (size_t)t->ne[1];
  float *w = malloc(n * sizeof *w);
  cr_assert(w && tnk_decode(t->dtype, t->data, w, n));
  *slot_of(x, part, layer) = w;
}

static double frequency(const naive *x, uint32_t cls, uint32_t pair)
{
  const tn_rope_query *q = &x->m->rope[cls];
  if (x->h.frequency) return x->h.frequency(x->h.ctx, cls, pair);
  cr_assert(q->scaling[0] == 0, "the oracle knows plain rotation only");
  return pow(q->base, -2.0 * pair / q->dims);
}

static double *angle(const naive *x, uint32_t cls, int64_t pos)
{
  return x->angles + ((size_t)cls * (size_t)x->cap + (size_t)pos) * x->m->shape.rope_dims;
}

static void make_angles(naive *x)
{
  uint32_t half = x->m->shape.rope_dims / 2, n = x->m->shape.n_classes;
  x->angles = calloc((size_t)n * (size_t)x->cap * 2 * half, sizeof *x->angles);
  cr_assert(x->angles);
  for (uint32_t c = 0; c < n; c++)
    for (int64_t pos = 0; pos < x->cap; pos++)
      for (uint32_t i = 0; i < half; i++) {
        double a = (double)pos * frequency(x, c, i);
        angle(x, c, pos)[2 * i] = cos(a);
        angle(x, c, pos)[2 * i + 1] = sin(a);
      }
}

naive *naive_open(const tn_model *m, const naive_hooks *hooks, int64_t cap)
{
  const tn_model_shape *s = &m->shape;
  naive *x = calloc(1, sizeof *x);
  cr_assert(x);
  x->m = m;
  x->cap = cap;
  if (hooks) x->h = *hooks;
  for (uint32_t part = 0; part < TN_N_PARTS; part++)
    for (uint32_t l = 0; l < (tn_part(part)->in_layer ? s->n_layers : 1); l++) load(x, part, l);
  size_t entries = (size_t)s->n_layers * s->n_kv_heads * (size_t)cap * s->d_head;
  size_t widest = s->d_model + (size_t)s->n_heads * s->d_head + s->d_ff;
  x->k = calloc(entries, sizeof *x->k);
  x->v = calloc(entries, sizeof *x->v);
  x->hidden = calloc((size_t)s->n_layers * s->d_model, sizeof *x->hidden);
  x->normed = calloc(s->d_model, sizeof *x->normed);
  x->logits = calloc(s->n_vocab, sizeof *x->logits);
  x->work = calloc(8 * widest + 2 * (size_t)cap, sizeof *x->work);
  x->seen = calloc((size_t)cap * s->d_head, sizeof *x->seen);
  cr_assert(x->k && x->v && x->hidden && x->normed && x->logits && x->work && x->seen);
  make_angles(x);
  return x;
}

void naive_close(naive *x)
{
  if (!x) return;
  for (size_t i = 0; i < TN_ARRAY_LEN(x->weights); i++) free(x->weights[i]);
  free(x->k);
  free(x->v);
  free(x->hidden);
  free(x->normed);
  free(x->logits);
  free(x->angles);
  free(x->work);
  free(x->seen);
  free(x->phi);
  free(x);
}

void naive_restart(naive *x) { x->n = 0; }

/* ---------------------------------------------------------------- the equations */

static void norm(const naive *x, const float *w, const double *in, int64_t n, int64_t span, double *out)
{
  for (int64_t at = 0; at < n; at += span) {
    double sum = 0;
    for (int64_t i = 0; i < span; i++) sum += in[at + i] * in[at + i];
    double rms = sqrt(sum / (double)span + x->m->norm_eps);
    for (int64_t i = 0; i < span; i++) out[at + i] = in[at + i] / rms * (double)w[i];
  }
}

static void linear(const naive *x, uint32_t part, uint32_t layer, const double *in, double *out)
{
  bool tied = part == TN_PART_OUTPUT && x->m->tied_head;
  const float *w = weight(x, tied ? TN_PART_TOKEN_EMBD : part, layer);
  int64_t n = tn_model_dim(x->m, tn_part(part)->n), k = tn_model_dim(x->m, tn_part(part)->k);
  const tn_gguf_tensor *bias = tn_model_bias(x->m, part, layer);
  if (x->h.input) x->h.input(x->h.ctx, layer, part, x->n, in, k);
  for (int64_t o = 0; o < n; o++) {
    double sum = 0;
    for (int64_t i = 0; i < k; i++) sum += (double)w[o * k + i] * in[i];
    out[o] = sum + (bias ? (double)((const float *)(const void *)bias->data)[o] : 0);
  }
}

static void rotate(const naive *x, uint32_t layer, int64_t pos, double *head)
{
  const tn_model_shape *s = &x->m->shape;
  uint32_t half = s->rope_dims / 2, cls = s->layer_class[layer];
  bool pairs = x->m->arch->rope_style == TN_ROPE_INTERLEAVED;
  for (uint32_t i = 0; i < half; i++) {
    double c = angle(x, cls, pos)[2 * i], r = angle(x, cls, pos)[2 * i + 1];
    double *a = &head[pairs ? 2 * i : i], *b = &head[pairs ? 2 * i + 1 : i + half], was = *a;
    *a = was * c - *b * r;
    *b = *b * c + was * r;
  }
}

static float *entry(const naive *x, float *all, uint32_t layer, uint32_t head, int64_t j)
{
  const tn_model_shape *s = &x->m->shape;
  return all + (((size_t)layer * s->n_kv_heads + head) * (size_t)x->cap + (size_t)j) * s->d_head;
}

static int64_t turned_by(const naive *x, uint32_t layer, uint32_t head, int64_t i, int64_t j)
{
  return x->h.turned_by ? x->h.turned_by(x->h.ctx, layer, head, i, j) : j;
}

/* Key, rotated, and value of entry j as query i reads them. */
static void read_entry(const naive *x, uint32_t layer, uint32_t head, int64_t i, int64_t j, double *k, double *v)
{
  uint32_t dh = x->m->shape.d_head;
  float fk[TN_MAX_HEAD_DIM], fv[TN_MAX_HEAD_DIM];
  memcpy(fk, entry(x, x->k, layer, head, j), dh * sizeof *fk);
  memcpy(fv, entry(x, x->v, layer, head, j), dh * sizeof *fv);
  if (x->h.stored && x->h.raw) x->h.stored(x->h.ctx, layer, head, i, j, fk, fv);
  for (uint32_t c = 0; c < dh; c++) k[c] = (double)fk[c];
  rotate(x, layer, turned_by(x, layer, head, i, j), k);
  for (uint32_t c = 0; c < dh; c++) fk[c] = (float)k[c];
  if (x->h.stored && !x->h.raw) x->h.stored(x->h.ctx, layer, head, i, j, fk, fv);
  for (uint32_t c = 0; c < dh; c++) k[c] = (double)fk[c], v[c] = (double)fv[c];
}

void naive_key(const naive *x, uint32_t layer, uint32_t head, int64_t j, float *k)
{
  double d[TN_MAX_HEAD_DIM];
  for (uint32_t c = 0; c < x->m->shape.d_head; c++) d[c] = (double)entry(x, x->k, layer, head, j)[c];
  rotate(x, layer, j, d);
  for (uint32_t c = 0; c < x->m->shape.d_head; c++) k[c] = (float)d[c];
}

static bool sees(const naive *x, uint32_t layer, uint32_t head, int64_t i, int64_t j)
{
  int64_t window = x->m->shape.class_window[x->m->shape.layer_class[layer]];
  if (window > 0 && i - j >= window) return false;
  return !x->h.sees || x->h.sees(x->h.ctx, layer, head, i, j);
}

/* One query head by softmax: scores of what it sees, then the weighted values. */
static void attend(const naive *x, uint32_t layer, uint32_t q_head, const double *query, double *out)
{
  const tn_model_shape *s = &x->m->shape;
  uint32_t head = q_head / (s->n_heads / s->n_kv_heads), dh = s->d_head;
  int64_t i = x->n;
  double q[TN_MAX_HEAD_DIM], k[TN_MAX_HEAD_DIM], best = -INFINITY, sum = 0;
  double *score = x->work;
  memcpy(q, query, dh * sizeof *q);
  rotate(x, layer, turned_by(x, layer, head, i, i), q);
  for (int64_t j = 0; j <= i; j++) {
    score[j] = -INFINITY;
    if (!sees(x, layer, head, i, j)) continue;
    read_entry(x, layer, head, i, j, k, x->seen + (size_t)j * dh);
    double dot = 0;
    for (uint32_t c = 0; c < dh; c++) dot += q[c] * k[c];
    score[j] = dot * (double)x->m->attn_scale;
    if (x->softcap > 0) score[j] = x->softcap * tanh(score[j] / x->softcap);
    if (score[j] > best) best = score[j];
  }
  for (int64_t j = 0; j <= i; j++) sum += score[j] > -INFINITY ? exp(score[j] - best) : 0;
  if (x->h.lse) x->h.lse(x->h.ctx, layer, q_head, i, best + log(sum));
  memset(out, 0, dh * sizeof *out);
  for (int64_t j = 0; j <= i; j++) {
    if (!(score[j] > -INFINITY)) continue;
    double p = exp(score[j] - best) / sum;
    for (uint32_t c = 0; c < dh; c++) out[c] += p * x->seen[(size_t)j * dh + c];
    if (x->h.share) x->h.share(x->h.ctx, layer, q_head, i, j, p);
  }
}

static void features(const tn_state_spec *spec, const double *in, uint32_t dh, double *phi)
{
  if (spec->phi == TN_PHI_ELU1) {
    for (uint32_t c = 0; c < dh; c++) phi[c] = in[c] > 0 ? in[c] + 1 : exp(in[c]);
    return;
  }
  double norm2 = 0, root = pow((double)dh, 0.25);
  for (uint32_t c = 0; c < dh; c++) norm2 += in[c] / root * (in[c] / root);
  for (uint32_t f = 0; f < spec->n_features; f++) {
    double dot = 0;
    for (uint32_t c = 0; c < dh; c++) dot += (double)spec->features[f * dh + c] * in[c] / root;
    phi[f] = exp(dot - norm2 / 2) / sqrt((double)spec->n_features);
  }
}

/* Features of key j, computed when the key is the newest, and its value as the cache holds it. */
static const double *features_of(naive *x, const tn_state_spec *spec, uint32_t layer, uint32_t head, int64_t j,
                                 float *v)
{
  const tn_model_shape *s = &x->m->shape;
  uint32_t dh = s->d_head, n = spec->phi == TN_PHI_ELU1 ? dh : spec->n_features;
  float k[TN_MAX_HEAD_DIM];
  double wide[TN_MAX_HEAD_DIM];
  if (!x->phi) x->phi = calloc((size_t)s->n_layers * s->n_kv_heads * (size_t)x->cap * n, sizeof *x->phi);
  if (!x->n_phi) x->n_phi = n;
  cr_assert(x->phi && x->n_phi == n, "recurrent heads have as many features everywhere");
  double *phi = x->phi + (((size_t)layer * s->n_kv_heads + head) * (size_t)x->cap + (size_t)j) * n;
  memcpy(k, entry(x, x->k, layer, head, j), dh * sizeof *k);
  memcpy(v, entry(x, x->v, layer, head, j), dh * sizeof *v);
  if (x->h.stored) x->h.stored(x->h.ctx, layer, head, x->n, j, k, v);
  for (uint32_t c = 0; c < dh; c++) wide[c] = (double)k[c];
  if (j == x->n) features(spec, wide, dh, phi);
  return phi;
}

/* The parallel form: sum over all keys of phi(q) phi(k), no state and no order. */
static void mix(naive *x, const tn_state_spec *spec, uint32_t layer, uint32_t q_head, const double *query, double *out)
{
  const tn_model_shape *s = &x->m->shape;
  uint32_t head = q_head / (s->n_heads / s->n_kv_heads), dh = s->d_head;
  uint32_t n = spec->phi == TN_PHI_ELU1 ? dh : spec->n_features;
  double phi_q[TN_MAX_HEAD_DIM], den = 0;
  float v[TN_MAX_HEAD_DIM];
  cr_assert(n <= TN_MAX_HEAD_DIM);
  features(spec, query, dh, phi_q);
  memset(out, 0, dh * sizeof *out);
  for (int64_t j = 0; j <= x->n; j++) {
    const double *phi_k = features_of(x, spec, layer, head, j, v);
    double w = 0;
    for (uint32_t f = 0; f < n; f++) w += phi_q[f] * phi_k[f];
    for (uint32_t c = 0; c < dh; c++) out[c] += w * (double)v[c];
    den += w;
  }
  for (uint32_t c = 0; c < dh; c++) out[c] /= den + spec->eps;
}

static double act(const naive *x, double z)
{
  if (x->m->arch->act == TN_ACT_SILU) return z / (1 + exp(-z));
  return 0.5 * z * (1 + tanh(sqrt(2 / M_PI) * (z + 0.044715 * z * z * z)));
}

/* ---------------------------------------------------------------- blocks */

/* Space for a row of the widest kind; index 0 is behind the scores. */
static double *row(const naive *x, uint32_t index)
{
  const tn_model_shape *s = &x->m->shape;
  size_t widest = s->d_model + (size_t)s->n_heads * s->d_head + s->d_ff;
  return x->work + 2 * (size_t)x->cap + index * widest;
}

static void attention(naive *x, uint32_t l, double *y)
{
  const tn_model_shape *s = &x->m->shape;
  int64_t d = s->d_model, q_cols = (int64_t)s->n_heads * s->d_head, kv_cols = (int64_t)s->n_kv_heads * s->d_head;
  double *h = row(x, 1), *q = row(x, 2), *k = row(x, 3), *v = row(x, 4), *o = row(x, 5);
  norm(x, weight(x, TN_PART_ATTN_NORM, l), y, d, d, h);
  linear(x, TN_PART_ATTN_Q, l, h, q);
  linear(x, TN_PART_ATTN_K, l, h, k);
  linear(x, TN_PART_ATTN_V, l, h, v);
  if (weight(x, TN_PART_ATTN_Q_NORM, l)) norm(x, weight(x, TN_PART_ATTN_Q_NORM, l), q, q_cols, s->d_head, q);
  if (weight(x, TN_PART_ATTN_K_NORM, l)) norm(x, weight(x, TN_PART_ATTN_K_NORM, l), k, kv_cols, s->d_head, k);
  for (int64_t c = 0; c < kv_cols; c++) {
    entry(x, x->k, l, (uint32_t)(c / s->d_head), x->n)[c % s->d_head] = (float)k[c];
    entry(x, x->v, l, (uint32_t)(c / s->d_head), x->n)[c % s->d_head] = (float)v[c];
  }
  for (uint32_t a = 0; a < s->n_heads; a++) {
    const tn_state_spec *spec = x->h.state ? x->h.state(x->h.ctx, l, a / (s->n_heads / s->n_kv_heads)) : NULL;
    double *out = o + (size_t)a * s->d_head, *query = q + (size_t)a * s->d_head;
    if (spec)
      mix(x, spec, l, a, query, out);
    else
      attend(x, l, a, query, out);
  }
  linear(x, TN_PART_ATTN_OUT, l, o, h);
  if (weight(x, TN_PART_ATTN_POST_NORM, l)) norm(x, weight(x, TN_PART_ATTN_POST_NORM, l), h, d, d, h);
  for (int64_t i = 0; i < d; i++) y[i] += h[i];
}

static void feed_forward(naive *x, uint32_t l, double *y)
{
  const tn_model_shape *s = &x->m->shape;
  int64_t d = s->d_model;
  double *h = row(x, 1), *gate = row(x, 2), *up = row(x, 3);
  norm(x, weight(x, TN_PART_FFN_NORM, l), y, d, d, h);
  linear(x, TN_PART_FFN_GATE, l, h, gate);
  linear(x, TN_PART_FFN_UP, l, h, up);
  for (uint32_t i = 0; i < s->d_ff; i++) gate[i] = act(x, gate[i]) * up[i];
  linear(x, TN_PART_FFN_DOWN, l, gate, h);
  if (weight(x, TN_PART_FFN_POST_NORM, l)) norm(x, weight(x, TN_PART_FFN_POST_NORM, l), h, d, d, h);
  for (int64_t i = 0; i < d; i++) y[i] += h[i];
}

void naive_push(naive *x, int32_t token)
{
  const tn_model_shape *s = &x->m->shape;
  double *y = row(x, 0);
  cr_assert(x->n < x->cap && token >= 0 && (uint32_t)token < s->n_vocab);
  const float *embedding = weight(x, TN_PART_TOKEN_EMBD, 0) + (size_t)token * s->d_model;
  for (uint32_t i = 0; i < s->d_model; i++) y[i] = (double)embedding[i] * x->m->embed_scale;
  for (uint32_t l = 0; l < s->n_layers; l++) {
    attention(x, l, y);
    feed_forward(x, l, y);
    memcpy(x->hidden + (size_t)l * s->d_model, y, s->d_model * sizeof *y);
  }
  norm(x, weight(x, TN_PART_OUTPUT_NORM, 0), y, s->d_model, s->d_model, x->normed);
  linear(x, TN_PART_OUTPUT, 0, x->normed, x->logits);
  x->n++;
}

void naive_head(const naive *x, const double *hidden, double *logits)
{
  double *h = row(x, 6);
  norm(x, weight(x, TN_PART_OUTPUT_NORM, 0), hidden, x->m->shape.d_model, x->m->shape.d_model, h);
  linear(x, TN_PART_OUTPUT, 0, h, logits);
}

double naive_error(const naive *x, const float *row_)
{
  double worst = 0;
  for (uint32_t i = 0; i < x->m->shape.n_vocab; i++) {
    double e = fabs((double)row_[i] - x->logits[i]) / fmax(1, fabs(x->logits[i]));
    worst = naive_worse(worst, e);
  }
  return worst;
}

double naive_worst(naive *x, const int32_t *tokens, int64_t n, const float *rows)
{
  double worst = 0;
  for (int64_t i = 0; i < n; i++) {
    naive_push(x, tokens[i]);
    worst = naive_worse(worst, naive_error(x, rows + (size_t)i * x->m->shape.n_vocab));
  }
  return worst;
}
