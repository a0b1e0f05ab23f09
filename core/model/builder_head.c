/* builder_head: the two ends of a program: embedding or the previous stage's rows, head or the next stage. */
#include <stdio.h>

#include "builder_int.h"

/* -> x [d] */
int32_t tn_mk_embedding(tn_maker *b)
{
  tn_op *op;
  if (b->par.layer0 > 0) {
    op = tn_mk_op(b, TN_OP_COLLECTIVE, -1, TN_A_X, "recv");
    op->p.coll = (tn_op_coll){.kind = TN_COLL_RECV, .peer = b->par.rank - 1, .tag = b->par.layer0};
    return op->out[0];
  }
  op = tn_mk_op(b, TN_OP_EMBED, -1, TN_A_X, tn_part(TN_PART_TOKEN_EMBD)->record);
  op->w[0] = tn_mk_need(b, TN_PART_TOKEN_EMBD, false);
  op->p.embed.scale = b->m->embed_scale;
  return op->out[0];
}

static bool wants_tap(const tn_maker *b, int32_t which)
{
  for (uint32_t i = 0; i < b->in->n_taps; i++)
    if (b->in->taps[i] == which) return true;
  return false;
}

/* Copies x to the taps that want these rows. */
void tn_mk_taps(tn_maker *b, int32_t which, int32_t x)
{
  int32_t layer = b->layer;
  b->layer = -1; /* taps are named by their index */
  for (uint32_t i = 0; i < b->in->n_taps; i++) {
    char stem[32];
    if (b->in->taps[i] != which) continue;
    snprintf(stem, sizeof stem, "tap.%u", i);
    tn_op *op = tn_mk_op(b, TN_OP_TAP, x, -1, stem);
    op->layer = layer;
    op->p.tap.index = i;
  }
  b->layer = layer;
}

/* Rows for which logits are wanted, normed: [out rows][d]. Norms are row-wise, so picking first changes no bit. */
static int32_t picked(tn_maker *b, int32_t x)
{
  if (!wants_tap(b, TN_TAP_POST_NORM)) {
    tn_op *pick = tn_mk_op(b, TN_OP_PICK, x, TN_A_XO, "pick");
    return tn_mk_norm(b, TN_PART_OUTPUT_NORM, pick->out[0], TN_A_HO);
  }
  int32_t xn = tn_mk_norm(b, TN_PART_OUTPUT_NORM, x, TN_A_XN);
  tn_mk_taps(b, TN_TAP_POST_NORM, xn);
  return tn_mk_op(b, TN_OP_PICK, xn, TN_A_HO, "pick")->out[0];
}

/* Stages: the last one computes the logits, and all get them. */
static void broadcast(tn_maker *b, bool last, int32_t logits)
{
  tn_op *op = tn_mk_op(b, TN_OP_COLLECTIVE, last ? logits : -1, last ? -1 : TN_A_LOGITS, "logits_bcast");
  op->p.coll = (tn_op_coll){.kind = TN_COLL_BROADCAST, .peer = b->par.world - 1, .tag = b->m->shape.n_layers};
}

/* x [d] -> logits [V], for the rows that want them */
void tn_mk_head(tn_maker *b, int32_t x)
{
  const tn_par_plan *par = &b->par;
  bool last = par->layer1 == b->m->shape.n_layers, stages = par->layer0 > 0 || !last;
  tn_program *g = &b->out->b.program;
  if (!last) {
    tn_op *op = tn_mk_op(b, TN_OP_COLLECTIVE, x, -1, "send");
    op->p.coll = (tn_op_coll){.kind = TN_COLL_SEND, .peer = par->rank + 1, .tag = par->layer1};
    broadcast(b, false, -1);
    g->logits = (uint32_t)tn_mk_act(b, TN_A_LOGITS);
    return;
  }
  bool split = tn_par_splits_vocab(b->m, par);
  int32_t y = tn_mk_linear(b, TN_PART_OUTPUT, picked(b, x), split ? TN_A_LOGITS_PART : TN_A_LOGITS); /* [V] */
  if (split) y = tn_mk_gather(b, "output_gather", y, TN_A_LOGITS);
  if (b->m->final_softcap > 0) {
    tn_op *op = tn_mk_op(b, TN_OP_SOFTCAP, y, TN_A_CAPPED, "softcap");
    op->p.scale.x = (double)b->m->final_softcap;
    y = op->out[0];
  }
  if (stages) broadcast(b, true, y);
  g->logits = (uint32_t)y;
}
