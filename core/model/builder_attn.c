/* builder_attn: one layer's attention block. Shapes are columns of a row; H heads and G KV heads of this rank. */
#include <stdio.h>

#include "builder_int.h"

static uint32_t per_kv_head(const tn_maker *b) { return b->m->shape.n_heads / b->m->shape.n_kv_heads; }

/* "attend", or "attend.2" when the layer has several records of the kind */
static void stem_of(const tn_maker *b, const char *stem, uint32_t kv_head0, uint32_t n_kv_heads, char *buf, size_t n)
{
  if (n_kv_heads == b->par.n_kv_heads)
    snprintf(buf, n, "%s", stem);
  else
    snprintf(buf, n, "%s.%u", stem, kv_head0);
}

/* x [n_heads dh] -> each head rotated by the angles of its row's position */
static int32_t rope(tn_maker *b, const char *stem, int32_t x, uint32_t n_heads, uint32_t sink, uint32_t act)
{
  const tn_model_shape *s = &b->m->shape;
  tn_op *op = tn_mk_op(b, TN_OP_ROPE, x, (int32_t)act, stem);
  op->p.rope = (tn_op_rope){.n_heads = n_heads,
                            .d_head = s->d_head,
                            .dims = s->rope_dims,
                            .style = b->m->arch->rope_style,
                            .table = s->layer_class[b->layer],
                            .sink = sink};
  return op->out[0];
}

/* k, v [G dh] -> the cache, heads [head0, head0 + n) */
static void kv_write(tn_maker *b, int32_t k, int32_t v, uint32_t head0, uint32_t n)
{
  char stem[64];
  stem_of(b, "kv_write", head0, n, stem, sizeof stem);
  tn_op *op = tn_mk_op(b, TN_OP_KV_WRITE, k, -1, stem);
  op->in[1] = v;
  if (b->in->flags & TN_BUILD_KNORM) op->flags |= TN_OPF_KNORM;
  op->p.attend =
      (tn_op_attend){.n_kv_heads = n, .d_head = b->m->shape.d_head, .d_v = b->m->shape.d_head, .kv_head0 = head0};
}

/* Keys of all heads: rotated kr, or plain k where they are stored raw; adjacent heads of one kind in one record. */
static void write_keys(tn_maker *b, int32_t k, int32_t kr, int32_t v)
{
  uint32_t end = b->par.kv_head0 + b->par.n_kv_heads;
  for (uint32_t head = b->par.kv_head0; head < end;) {
    tn_head_run run = tn_mk_run(b, head);
    uint32_t next = head + run.n_kv_heads;
    while (next < end && tn_mk_run(b, next).raw == run.raw) next += tn_mk_run(b, next).n_kv_heads;
    kv_write(b, run.raw ? k : kr, v, head, next - head);
    head = next;
  }
}

/* The queries of one run and where their outputs go. q plain, qr rotated, qs rotated for sinks. */
static void attend(tn_maker *b, const tn_head_run *run, int32_t q, int32_t qr, int32_t qs)
{
  const tn_model_shape *s = &b->m->shape;
  bool state = run->spec.kind == TN_AT_STATE;
  char stem[64];
  stem_of(b, state ? "state_mix" : "attend", run->kv_head0, run->n_kv_heads, stem, sizeof stem);
  tn_op *op = tn_mk_op(b, state ? TN_OP_STATE_MIX : TN_OP_ATTEND, state ? q : qr, TN_A_O, stem);
  tn_op_attend p = {.n_heads = run->n_kv_heads * per_kv_head(b),
                    .n_kv_heads = run->n_kv_heads,
                    .d_head = s->d_head,
                    .d_v = s->d_head,
                    .head0 = run->kv_head0 * per_kv_head(b),
                    .kv_head0 = run->kv_head0};
  if (state) {
    p.state = run->group;
    op->p.attend = p;
    return;
  }
  p.scale = b->m->attn_scale;
  p.softcap = run->spec.softcap > 0 ? run->spec.softcap : b->m->attn_softcap;
  tn_mk_run_masks(b, run, &p);
  if (run->spec.kind == TN_AT_TILES) p.tiles = 1 + tn_mk_tile_set(b);
  if (run->raw) p.rope = s->layer_class[b->layer], p.rope_style = b->m->arch->rope_style, p.rope_dims = s->rope_dims;
  if (qs >= 0) op->in[1] = qs, p.n_sinks = tn_mk_sinks(b);
  if (b->in->flags & TN_BUILD_LSE) op->out[1] = tn_mk_act(b, TN_A_LSE);
  if (b->in->flags & TN_BUILD_COLSUM) op->flags |= TN_OPF_COLSUM;
  op->p.attend = p;
}

/* What the layer's heads need: rotated queries, rotated keys. */
static void needs_of_heads(tn_maker *b, bool *rotate_q, bool *rotate_k)
{
  uint32_t end = b->par.kv_head0 + b->par.n_kv_heads;
  *rotate_q = *rotate_k = false;
  for (uint32_t head = b->par.kv_head0; head < end;) {
    tn_head_run run = tn_mk_run(b, head);
    if (run.spec.kind != TN_AT_STATE) *rotate_q = true;
    if (!run.raw) *rotate_k = true;
    head += run.n_kv_heads;
  }
}

/* x [d] -> y = x + post_norm(W_o attend(rope(q), rope(k), v)) [d] */
int32_t tn_mk_attention(tn_maker *b, int32_t x)
{
  static const uint32_t out_acts[3] = {TN_A_O_PARTS, TN_A_O_ALL, TN_A_A};
  uint32_t nh = b->par.n_heads, nkv = b->par.n_kv_heads, end = b->par.kv_head0 + nkv;
  int32_t qr = -1, qs = -1, kr = -1;
  bool rotate_q, rotate_k;
  needs_of_heads(b, &rotate_q, &rotate_k);

  int32_t h = tn_mk_norm(b, TN_PART_ATTN_NORM, x, TN_A_H);                                   /* [d] */
  int32_t q = tn_mk_linear(b, TN_PART_ATTN_Q, h, TN_A_Q);                                    /* [H dh] */
  int32_t k = tn_mk_linear(b, TN_PART_ATTN_K, h, TN_A_K);                                    /* [G dh] */
  int32_t v = tn_mk_linear(b, TN_PART_ATTN_V, h, TN_A_V);                                    /* [G dh] */
  if (tn_mk_has(b, TN_PART_ATTN_Q_NORM)) q = tn_mk_norm(b, TN_PART_ATTN_Q_NORM, q, TN_A_QN); /* [H dh] */
  if (tn_mk_has(b, TN_PART_ATTN_K_NORM)) k = tn_mk_norm(b, TN_PART_ATTN_K_NORM, k, TN_A_KN); /* [G dh] */
  if (rotate_q) qr = rope(b, "attn_q_rope", q, nh, 0, TN_A_QR);                              /* [H dh] */
  if (rotate_q && tn_mk_sinks(b)) qs = rope(b, "attn_q_sink_rope", q, nh, 1, TN_A_QS);       /* [H dh] */
  if (rotate_k) kr = rope(b, "attn_k_rope", k, nkv, 0, TN_A_KR);                             /* [G dh] */
  write_keys(b, k, kr, v);
  for (uint32_t head = b->par.kv_head0; head < end;) { /* o [H dh] */
    tn_head_run run = tn_mk_run(b, head);
    attend(b, &run, q, qr, qs);
    head += run.n_kv_heads;
  }
  int32_t o = tn_mk_act(b, TN_A_O);
  int32_t a = tn_mk_down(b, TN_PART_ATTN_OUT, o, tn_par_splits_heads(b->m, &b->par), out_acts); /* [d] */
  if (tn_mk_has(b, TN_PART_ATTN_POST_NORM)) a = tn_mk_norm(b, TN_PART_ATTN_POST_NORM, a, TN_A_AN);
  return tn_mk_add(b, "attn_add", x, a, TN_A_Y);
}
