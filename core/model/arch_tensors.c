/* arch_tensors: puts every tensor of a file in its place, and checks presence, shape and type. */
#include "arch_int.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "quant/dtype.h"

/* A tensor's place: what its name says. */
typedef struct place {
  uint32_t part;
  uint64_t layer; /* inside the layers only */
  bool bias;
} place;

static bool starts(tn_str s, const char *head) { return s.n >= strlen(head) && memcmp(s.p, head, strlen(head)) == 0; }

/* Cuts a decimal number without leading zeros and the dot behind it off s. */
static bool take_number(tn_str *s, uint64_t *out)
{
  uint64_t v = 0;
  size_t i = 0;
  for (; i < s->n && i < 10 && s->p[i] >= '0' && s->p[i] <= '9'; i++) v = v * 10 + (uint64_t)(s->p[i] - '0');
  if (i == 0 || (s->p[0] == '0' && i > 1) || i >= s->n || s->p[i] != '.') return false;
  s->p += i + 1;
  s->n -= i + 1;
  *out = v;
  return true;
}

/* "blk.3.attn_q.weight" to (ATTN_Q, 3, no bias); false for a name that is none of ours. */
static bool find_place(tn_str name, place *out)
{
  bool in_layer = starts(name, "blk.");
  *out = (place){0};
  if (in_layer) {
    name.p += 4;
    name.n -= 4;
    if (!take_number(&name, &out->layer)) return false;
  }
  for (uint32_t p = 0; p < TN_N_PARTS; p++) {
    const tn_part_info *info = tn_part(p);
    size_t n = strlen(info->file);
    if (info->in_layer != in_layer || !starts(name, info->file) || name.n == n) continue;
    tn_str tail = {name.p + n, name.n - n};
    out->part = p;
    out->bias = tail.n == 5 && memcmp(tail.p, ".bias", 5) == 0;
    if (out->bias || (tail.n == 7 && memcmp(tail.p, ".weight", 7) == 0)) return true;
  }
  return false;
}

/* May this architecture have it? Projections may have a bias; norms and the embedding have none. */
static bool allowed(const tn_arch *a, const place *at)
{
  const tn_part_info *info = tn_part(at->part);
  if (!((a->required | a->optional) & TN_PART_BIT(at->part))) return false;
  return !at->bias || (info->n != TN_DIM_ONE && info->role != TN_ROLE_EMBED);
}

static size_t slot(uint32_t part, uint32_t layer, bool bias)
{
  size_t row = tn_part(part)->in_layer ? 1 + (size_t)layer : 0;
  return (row * TN_N_PARTS + part) * 2 + bias;
}

const tn_gguf_tensor *tn_model_tensor(const tn_model *m, uint32_t part, uint32_t layer)
{
  return m->tensors[slot(part, layer, false)];
}

const tn_gguf_tensor *tn_model_bias(const tn_model *m, uint32_t part, uint32_t layer)
{
  return m->tensors[slot(part, layer, true)];
}

static tn_status check_shape(const tn_model *m, const place *at, const tn_gguf_tensor *t, tn_err *err)
{
  const tn_part_info *info = tn_part(at->part);
  const char *path = tn_gguf_path(m->gguf);
  bool vector = at->bias || info->n == TN_DIM_ONE;
  int64_t k = tn_model_dim(m, at->bias ? info->n : info->k), n = vector ? 1 : tn_model_dim(m, info->n);
  if (t->ne[0] != k || t->ne[1] != n || t->ne[2] != 1 || t->ne[3] != 1)
    return tn_fail(err, TN_E_ARG,
                   "%s: %.*s is [%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64
                   "], but the metadata makes it [%" PRId64 ", %" PRId64 ", 1, 1]",
                   path, (int)t->name.n, t->name.p, t->ne[0], t->ne[1], t->ne[2], t->ne[3], k, n);
  tnk_dtype_info d = tnk_dtype(t->dtype);
  if (!d.decodes)
    return tn_fail(err, TN_E_UNSUPPORTED, "%s: %.*s is of type %u (%s), which does not decode to f32", path,
                   (int)t->name.n, t->name.p, t->dtype, d.name ? d.name : "unknown");
  return TN_OK;
}

/* The vocabulary is as long as the embedding has rows; the file may say so too. */
static tn_status read_vocab(tn_model *m, tn_err *err)
{
  const char *path = tn_gguf_path(m->gguf);
  const tn_gguf_tensor *t = tn_gguf_tensor_find(m->gguf, "token_embd.weight");
  uint32_t said = 0;
  if (!t) return tn_fail(err, TN_E_ARG, "%s: tensor token_embd.weight is missing", path);
  if (t->ne[1] > TN_MAX_VOCAB)
    return tn_fail(err, TN_E_ARG, "%s: token_embd.weight has %" PRId64 " rows, allowed are up to %d", path, t->ne[1],
                   TN_MAX_VOCAB);
  m->shape.n_vocab = (uint32_t)t->ne[1];
  tn_status st = tn_arch_count(m, "vocab_size", false, 1, TN_MAX_VOCAB, &said, err);
  if (st) return st;
  if (said && said != m->shape.n_vocab)
    return tn_fail(err, TN_E_ARG, "%s: %s.vocab_size is %u, token_embd.weight has %u rows", path, m->arch->name, said,
                   m->shape.n_vocab);
  return TN_OK;
}

static tn_status put(tn_model_own *own, const tn_gguf_tensor *t, tn_err *err)
{
  const tn_model *m = &own->m;
  const char *path = tn_gguf_path(m->gguf);
  char name[72];
  place at;
  if (!find_place(t->name, &at) || !allowed(m->arch, &at))
    return tn_fail(err, TN_E_UNSUPPORTED, "%s: tensor %s is not a part of architecture %s as Tenon knows it", path,
                   tn_arch_show(t->name, name), m->arch->name);
  if (at.layer >= m->shape.n_layers)
    return tn_fail(err, TN_E_ARG, "%s: tensor %s is of layer %" PRIu64 ", but %s.block_count is %u", path,
                   tn_arch_show(t->name, name), at.layer, m->arch->name, m->shape.n_layers);
  own->tensors[slot(at.part, (uint32_t)at.layer, at.bias)] = t;
  return check_shape(m, &at, t, err);
}

/* Is everything there that the architecture requires? */
static tn_status check_presence(const tn_model *m, tn_err *err)
{
  for (uint32_t layer = 0; layer < m->shape.n_layers; layer++) {
    for (uint32_t p = 0; p < TN_N_PARTS; p++) {
      const tn_part_info *info = tn_part(p);
      bool weight = (m->arch->required & TN_PART_BIT(p)) && !tn_model_tensor(m, p, layer);
      bool bias = (m->arch->biases & TN_PART_BIT(p)) && !tn_model_bias(m, p, layer);
      char blk[32] = "";
      if (!weight && !bias) continue;
      if (info->in_layer) snprintf(blk, sizeof blk, "blk.%u.", layer);
      return tn_fail(err, TN_E_ARG, "%s: tensor %s%s.%s is missing; architecture %s with %u layers has it",
                     tn_gguf_path(m->gguf), blk, info->file, weight ? "weight" : "bias", m->arch->name,
                     m->shape.n_layers);
    }
  }
  return TN_OK;
}

tn_status tn_arch_read_tensors(tn_model_own *own, tn_progress_fn progress, void *ctx, tn_err *err)
{
  tn_model *m = &own->m;
  uint64_t n = tn_gguf_n_tensors(m->gguf);
  tn_status st = read_vocab(m, err);
  if (st) return st;
  own->tensors = tn_zalloc((1 + (size_t)m->shape.n_layers) * TN_N_PARTS * 2, sizeof *own->tensors);
  if (!own->tensors) return tn_fail(err, TN_E_NOMEM, "%s: no memory for the tensor table", tn_gguf_path(m->gguf));
  m->tensors = own->tensors;
  for (uint64_t i = 0; i < n; i++) {
    if (progress && !progress(ctx, (double)i / (double)n))
      return tn_fail(err, TN_E_STATE, "%s: opening was cancelled", tn_gguf_path(m->gguf));
    if ((st = put(own, tn_gguf_tensor_at(m->gguf, i), err))) return st;
  }
  if ((st = check_presence(m, err))) return st;
  m->tied_head = !tn_model_tensor(m, TN_PART_OUTPUT, 0);
  return TN_OK;
}
