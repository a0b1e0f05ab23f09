/* builder_list: the growing arrays of a program under construction. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "builder_int.h"

/* A record and the memory of its name: "blk.1023.attn_q_sink_rope.1023.observe" is the longest kind. */
typedef struct named_op {
  tn_op op;
  char name[64];
} named_op;

void tn_mk_fail(tn_maker *b, tn_status st, const char *fmt, ...)
{
  char msg[sizeof b->err->msg];
  va_list ap;
  if (b->st) return;
  b->st = st;
  va_start(ap, fmt);
  vsnprintf(msg, sizeof msg, fmt, ap);
  va_end(ap);
  tn_fail(b->err, st, "%s: %s", tn_gguf_path(b->m->gguf), msg);
}

/* The array with room for element n. On failure the same array, and the failure is set. */
static void *grow(tn_maker *b, void *array, uint32_t n, uint32_t *cap, size_t size)
{
  size_t bytes;
  if (b->st || n < *cap) return array;
  uint32_t want = *cap ? *cap * 2 : 32;
  void *q = tn_mul_size(want, size, &bytes) ? realloc(array, bytes) : NULL;
  if (!q) {
    tn_mk_fail(b, TN_E_NOMEM, "no memory for the program");
    return array;
  }
  *cap = want;
  return q;
}

tn_op *tn_mk_op(tn_maker *b, uint32_t kind, int32_t in0, int32_t act, const char *stem)
{
  tn_built_own *own = b->out;
  tn_program *g = &own->b.program;
  named_op *n;
  int32_t out0 = act >= 0 ? tn_mk_act(b, (uint32_t)act) : -1;
  b->scratch = (tn_op){.struct_size = sizeof(tn_op)};
  own->ops = grow(b, own->ops, g->n_ops, &own->cap_ops, sizeof *own->ops);
  n = b->st ? NULL : tn_zalloc(1, sizeof *n);
  if (!n) {
    tn_mk_fail(b, TN_E_NOMEM, "no memory for the program");
    return &b->scratch;
  }
  own->ops[g->n_ops++] = &n->op;
  if (b->layer >= 0)
    snprintf(n->name, sizeof n->name, "blk.%d.%s", b->layer, stem);
  else
    snprintf(n->name, sizeof n->name, "%s", stem);
  n->op = (tn_op){.struct_size = sizeof(tn_op),
                  .kind = kind,
                  .name = n->name,
                  .layer = b->layer,
                  .in = {in0, -1, -1, -1},
                  .out = {out0, -1},
                  .w = {-1, -1}};
  return &n->op;
}

/* Name, rows and columns of an act on this rank. */
static tn_act describe(const tn_maker *b, uint32_t act)
{
  static const char *const names[TN_N_ACTS] = {
      "x",      "h",     "q",     "q_norm",      "q_rope",    "q_sink",       "k",    "k_norm",
      "k_rope", "v",     "o",     "lse",         "o_parts",   "o_all",        "attn", "attn_norm",
      "y",      "gate",  "up",    "glu",         "ffn_parts", "ffn_all",      "ffn",  "ffn_norm",
      "x_norm", "x_out", "h_out", "logits_part", "logits",    "logits_capped"};
  const tn_par_plan *par = &b->par;
  int64_t d = b->m->shape.d_model, dh = b->m->shape.d_head, q = par->n_heads * dh, kv = par->n_kv_heads * dh;
  int64_t hq = tn_model_dim(b->m, TN_DIM_Q), ff = b->m->shape.d_ff;
  int64_t so = tn_model_segments(b->m, hq), sf = tn_model_segments(b->m, ff);
  tn_act a = {.struct_size = sizeof a, .rows = act < TN_A_XO ? TN_ROWS_ALL : TN_ROWS_OUT, .name = names[act]};
  switch (act) {
    case TN_A_Q:
    case TN_A_QN:
    case TN_A_QR:
    case TN_A_QS:
    case TN_A_O: a.cols = q; break;
    case TN_A_K:
    case TN_A_KN:
    case TN_A_KR:
    case TN_A_V: a.cols = kv; break;
    case TN_A_LSE: a.cols = par->n_heads; break;
    case TN_A_GATE:
    case TN_A_UP:
    case TN_A_GLU: a.cols = par->n_ff; break;
    case TN_A_O_PARTS: a.cols = so * q / hq * d; break;
    case TN_A_O_ALL: a.cols = so * d; break;
    case TN_A_F_PARTS: a.cols = sf * par->n_ff / ff * d; break;
    case TN_A_F_ALL: a.cols = sf * d; break;
    case TN_A_LOGITS_PART: a.cols = par->n_vocab; break;
    case TN_A_LOGITS:
    case TN_A_CAPPED: a.cols = b->m->shape.n_vocab; break;
    default: a.cols = d; break;
  }
  return a;
}

int32_t tn_mk_act(tn_maker *b, uint32_t act)
{
  tn_built_own *own = b->out;
  tn_program *g = &own->b.program;
  if (b->act[act] >= 0) return b->act[act];
  own->acts = grow(b, own->acts, g->n_acts, &own->cap_acts, sizeof *own->acts);
  tn_act *a = b->st ? NULL : tn_zalloc(1, sizeof *a);
  if (!a) {
    tn_mk_fail(b, TN_E_NOMEM, "no memory for the program");
    return -1;
  }
  *a = describe(b, act);
  own->acts[g->n_acts] = a;
  b->act[act] = (int32_t)g->n_acts++;
  return b->act[act];
}

/* The need that holds the same part of the same tensor (a tied head), or -1. Only the embedding can be met again, and it
 * is always need 0. */
static int32_t find_need(const tn_maker *b, const tn_gguf_tensor *t, const tn_shard *s)
{
  const tn_weight_need *n = b->out->needs;
  bool same = b->out->b.program.n_weights > 0 && n->tensor == t && n->shard.row0 == s->row0 &&
              n->shard.n_rows == s->n_rows && n->shard.col0 == s->col0 && n->shard.n_cols == s->n_cols;
  return same ? 0 : -1;
}

int32_t tn_mk_need(tn_maker *b, uint32_t part, bool bias)
{
  tn_built_own *own = b->out;
  tn_program *g = &own->b.program;
  const tn_part_info *info = tn_part(part);
  uint32_t layer = b->layer < 0 ? 0 : (uint32_t)b->layer;
  bool tied = part == TN_PART_OUTPUT && b->m->tied_head && !bias;
  const tn_gguf_tensor *t =
      bias ? tn_model_bias(b->m, part, layer) : tn_model_tensor(b->m, tied ? TN_PART_TOKEN_EMBD : part, layer);
  tn_shard shard = bias ? tn_shard_of_bias(b->m, &b->par, part) : tn_shard_of(b->m, &b->par, part);
  if (!t) return -1;
  int32_t known = tied ? find_need(b, t, &shard) : -1;
  if (known >= 0) return known;
  own->needs = grow(b, own->needs, g->n_weights, &own->cap_needs, sizeof *own->needs);
  char *name = b->st ? NULL : tn_strndup(t->name.p, t->name.n);
  if (!name) {
    tn_mk_fail(b, TN_E_NOMEM, "no memory for the program");
    return -1;
  }
  own->needs[g->n_weights] = (tn_weight_need){.name = name,
                                              .tensor = t,
                                              .role = bias ? TN_ROLE_BIAS : info->role,
                                              .layer = b->layer,
                                              .n = t->ne[1],
                                              .k = t->ne[0],
                                              .shard = shard};
  return (int32_t)g->n_weights++;
}

static bool same_mask(const tn_mask *a, const tn_mask *b)
{
  return a->lo == b->lo && a->hi == b->hi && a->stride == b->stride && a->residue == b->residue && a->sinks == b->sinks;
}

/* Puts masks[n] into the program, or finds them there, and says where in *p. */
void tn_mk_masks(tn_maker *b, const tn_mask *masks, uint32_t n, tn_op_attend *p)
{
  tn_built_own *own = b->out;
  tn_program *g = &own->b.program;
  uint32_t at = 0, i = 0;
  if (n == 0) return;
  for (; at + n <= g->n_masks; at++) {
    for (i = 0; i < n && same_mask(&own->masks[at + i], &masks[i]); i++) {}
    if (i == n) break;
  }
  if (i < n) {
    at = g->n_masks;
    for (i = 0; i < n; i++) {
      own->masks = grow(b, own->masks, g->n_masks, &own->cap_masks, sizeof *own->masks);
      if (b->st) return;
      own->masks[g->n_masks++] = masks[i];
    }
  }
  p->mask = at;
  p->n_masks = n;
}

uint32_t tn_mk_observed(tn_maker *b, uint32_t need)
{
  tn_built_own *own = b->out;
  own->observed = grow(b, own->observed, own->b.n_observed, &own->cap_observed, sizeof *own->observed);
  if (b->st) return 0;
  own->observed[own->b.n_observed] = need;
  return own->b.n_observed++;
}

void tn_mk_add_tile_set(tn_maker *b, int32_t layer)
{
  tn_built_own *own = b->out;
  uint32_t n = own->b.n_tile_sets;
  own->tile_layers = grow(b, own->tile_layers, n, &own->cap_tiles, sizeof *own->tile_layers);
  if (b->st) return;
  own->tile_layers[n] = layer;
  own->b.n_tile_sets++;
}

uint32_t tn_mk_tile_set(const tn_maker *b)
{
  uint32_t s = 0;
  while (s < b->out->b.n_tile_sets && b->out->tile_layers[s] != b->layer) s++;
  return s;
}

void tn_built_own_free(tn_built_own *own)
{
  const tn_program *g = &own->b.program;
  for (uint32_t i = 0; i < g->n_ops; i++) free(own->ops[i]);
  for (uint32_t i = 0; i < g->n_acts; i++) free(own->acts[i]);
  for (uint32_t i = 0; i < g->n_weights; i++) free((char *)own->needs[i].name);
  free(own->ops);
  free(own->acts);
  free(own->weights);
  free(own->needs);
  free(own->masks);
  free(own->groups);
  free(own->table_dims);
  free(own->observed);
  free(own->tile_layers);
  free(own);
}
