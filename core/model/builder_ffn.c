/* builder_ffn: one layer's feed-forward block. */
#include "builder_int.h"

/* y [d] -> x = y + post_norm(W_down (act(W_gate h) * W_up h)) [d], h = norm(y) */
int32_t tn_mk_feed_forward(tn_maker *b, int32_t y)
{
  static const uint32_t out_acts[3] = {TN_A_F_PARTS, TN_A_F_ALL, TN_A_F};
  int32_t h = tn_mk_norm(b, TN_PART_FFN_NORM, y, TN_A_H);         /* [d] */
  int32_t gate = tn_mk_linear(b, TN_PART_FFN_GATE, h, TN_A_GATE); /* [ff] */
  int32_t up = tn_mk_linear(b, TN_PART_FFN_UP, h, TN_A_UP);       /* [ff] */
  tn_op *op = tn_mk_op(b, TN_OP_GLU, gate, TN_A_GLU, "ffn_glu");  /* [ff] */
  op->in[1] = up;
  op->p.glu.act = b->m->arch->act;
  int32_t f = tn_mk_down(b, TN_PART_FFN_DOWN, op->out[0], tn_par_splits_ff(b->m, &b->par), out_acts); /* [d] */
  if (tn_mk_has(b, TN_PART_FFN_POST_NORM)) f = tn_mk_norm(b, TN_PART_FFN_POST_NORM, f, TN_A_FN);
  return tn_mk_add(b, "ffn_add", y, f, TN_A_X);
}
