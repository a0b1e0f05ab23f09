/* draft: step 2 of a turn, and what drafters are told afterwards. See step.c.
 *
 * The host trusts no tree: node order, parents, tokens, laws and depth are checked, and a tree is cut where the step may
 * not go (an eviction boundary, the request's length, the rows left). */
#include <stdlib.h>

#include "engine_int.h"

tn_status tn_drafter_open(tn_engine *e, tn_err *err)
{
  if (!e->draft.desc) return TN_OK;
  tn_drafter *d = &e->dr;
  size_t n = e->cfg.max_seqs;
  d->v = e->draft.desc->vtable;
  d->reqs = tn_zalloc(n, sizeof *d->reqs);
  d->req_ptrs = tn_zalloc(n, sizeof *d->req_ptrs);
  d->trees = tn_zalloc(n, sizeof *d->trees);
  d->tree_ptrs = tn_zalloc(n, sizeof *d->tree_ptrs);
  d->outs = tn_zalloc(n, sizeof *d->outs);
  d->out_ptrs = tn_zalloc(n, sizeof *d->out_ptrs);
  if (!d->reqs || !d->req_ptrs || !d->trees || !d->tree_ptrs || !d->outs || !d->out_ptrs)
    return tn_fail(err, TN_E_NOMEM, "no memory for the drafter");
  if (d->spec.max_nodes < 1 || d->spec.q_kind < TN_Q_DELTA || d->spec.q_kind > TN_Q_WOR)
    return tn_fail(err, TN_E_INTERNAL, "draft/%s: describe: max_nodes = %u, q_kind = %u", e->draft.desc->name,
                   d->spec.max_nodes, d->spec.q_kind);
  return TN_OK;
}

void tn_drafter_close(tn_engine *e)
{
  tn_drafter *d = &e->dr;
  free(d->reqs);
  free(d->req_ptrs);
  free(d->trees);
  free(d->tree_ptrs);
  free(d->outs);
  free(d->out_ptrs);
  free(d->verdicts);
}

/* How deep a tree may go: neither past the next eviction nor past the request's last token. */
static int64_t depth_limit(const tn_engine *e, const tn_seq *s)
{
  int64_t depth = e->dr.spec.max_depth ? e->dr.spec.max_depth : TN_MAX_DEPTH;
  int64_t evict = s->next_evict - s->n_done - 1, left = s->max_len - s->n_tok - 1;
  if (depth > (int64_t)TN_MAX_DEPTH) depth = TN_MAX_DEPTH;
  if (evict < depth) depth = evict;
  return left < depth ? left : depth;
}

uint32_t tn_draft_limit(const tn_engine *e, const tn_seq *s)
{
  if (!e->dr.v || !s->kv || tn_seq_todo(s) != 1 || s->n_done < s->n_prompt) return 0;
  if (s->req.score && !s->req.n_forced) return 0;
  return depth_limit(e, s) < 1 ? 0 : e->dr.max_nodes;
}

static tn_status bad_tree(const tn_engine *e, tn_err *err, uint32_t node, const char *what)
{
  return tn_fail(err, TN_E_INTERNAL, "draft/%s: propose: node %u %s", e->draft.desc->name, node, what);
}

/* Checks node by node. Nodes that are too deep, and their children, are dead: they keep their number and their row, so
 * that nodes are counted as the drafter counts them, but nothing leads to them. Dead ones at the end are left out. */
static tn_status accept_tree(tn_engine *e, tn_seq *s, const tn_draft_tree *t, uint32_t most, tn_err *err)
{
  uint32_t depth[TN_MAX_NODES], alive = 0;
  int64_t limit = depth_limit(e, s);
  if (t->n > most) return bad_tree(e, err, t->n, "is more than was asked for");
  for (uint32_t i = 0; i < t->n; i++) {
    int32_t parent = t->parent[i];
    if (parent < -1 || parent >= (int32_t)i) return bad_tree(e, err, i, "comes before its parent");
    if (t->token[i] < 0 || (uint32_t)t->token[i] >= e->n_vocab) return bad_tree(e, err, i, "is not in the vocabulary");
    if (e->dr.spec.q_kind != TN_Q_DELTA && !t->q[i]) return bad_tree(e, err, i, "has no law");
    if (!e->dr.spec.tree && parent != (int32_t)i - 1)
      return bad_tree(e, err, i, "branches, but the drafter declared chains");
    depth[i] = parent < 0 ? 1 : depth[parent] + 1;
    if (depth[i] <= limit) alive = i + 1;
  }
  for (uint32_t i = 0; i < alive; i++)
    if (depth[i] > limit) s->node_parent[i] = TN_NODE_DEAD;
  s->n_nodes = alive;
  return TN_OK;
}

tn_status tn_draft_propose(tn_engine *e, tn_err *err)
{
  tn_drafter *d = &e->dr;
  uint32_t n = 0;
  for (uint32_t i = 0; i < e->n_running; i++) {
    tn_seq *s = e->running[i];
    if (s->n_nodes == 0) continue;
    d->reqs[n] = (tn_draft_req){.struct_size = sizeof *d->reqs,
                                .max_nodes = s->n_nodes,
                                .seq = s->id,
                                .request = s->req.key,
                                .tokens = s->tokens,
                                .n = s->n_tok,
                                .temperature = s->req.sampling.temperature};
    d->trees[n] = (tn_draft_tree){
        .struct_size = sizeof *d->trees, .token = s->node_token, .parent = s->node_parent, .q = s->node_q};
    for (uint32_t k = 0; k < s->n_nodes; k++) s->node_q[k] = NULL;
    d->req_ptrs[n] = &d->reqs[n];
    d->tree_ptrs[n] = &d->trees[n];
    n++;
  }
  if (n == 0) return TN_OK;
  tn_status st = d->v->propose(e->draft.inst, n, d->req_ptrs, d->tree_ptrs);
  if (st != TN_OK) return tn_fail(err, st, "draft/%s: propose: %s", e->draft.desc->name, tn_status_name(st));
  n = 0;
  for (uint32_t i = 0; st == TN_OK && i < e->n_running; i++) {
    tn_seq *s = e->running[i];
    if (s->n_nodes > 0) st = accept_tree(e, s, &d->trees[n++], s->n_nodes, err);
  }
  return st;
}

static tn_status report_rows(tn_engine *e, const tn_seq *s, int64_t pos0)
{
  const tn_rank *r = &e->exec->ranks[0];
  tn_draft_rows rows = {.struct_size = sizeof rows,
                        .n_rows = s->run,
                        .seq = s->id,
                        .pos0 = pos0,
                        .row0 = s->row0,
                        .n_taps = e->dr.spec.n_taps,
                        .taps = r->tap_ptrs};
  return e->dr.v->rows(e->draft.inst, &rows);
}

tn_status tn_draft_report(tn_engine *e, tn_err *err)
{
  tn_drafter *d = &e->dr;
  if (!d->v) return TN_OK;
  uint32_t n = 0;
  tn_status st = TN_OK;
  for (uint32_t i = 0; st == TN_OK && i < e->n_running; i++) {
    const tn_seq *s = e->running[i];
    const tn_verify_out *v = &d->verdicts[i];
    bool sampled = v->next >= 0;
    int64_t pos0 = s->n_done - s->run - v->n_path;
    if (d->spec.n_taps > 0 && TN_CAN(d->v, rows) && pos0 < s->n_prompt) st = report_rows(e, s, pos0);
    if (!sampled) continue;
    d->outs[n] = (tn_draft_outcome){.struct_size = sizeof *d->outs,
                                    .n_path = v->n_path,
                                    .seq = s->id,
                                    .path = v->path,
                                    .next = v->next,
                                    .row0 = s->row0 + (int32_t)s->run - 1,
                                    .taps = e->exec->ranks[0].tap_ptrs};
    d->out_ptrs[n] = &d->outs[n];
    n++;
  }
  if (st == TN_OK && n > 0 && TN_CAN(d->v, outcome)) st = d->v->outcome(e->draft.inst, n, d->out_ptrs);
  return st == TN_OK ? st : tn_fail(err, st, "draft/%s: outcome: %s", e->draft.desc->name, tn_status_name(st));
}
