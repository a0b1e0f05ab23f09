/* run: see run.h. */
#include "ab/run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STREAM_PROMPTS = 16, STREAM_ORDER = 17, TURN_BITS = 12 };

static void shuffle(tn_stat_rng r, uint32_t n, uint32_t *order)
{
  for (uint32_t i = 0; i < n; i++) order[i] = i;
  for (uint32_t i = n; i > 1; i--) {
    uint32_t k = tn_stat_below(&r, i), kept = order[i - 1];
    order[i - 1] = order[k];
    order[k] = kept;
  }
}

void tn_ab_order(uint64_t seed, uint32_t block, uint32_t turn, uint32_t n, uint32_t *order)
{
  tn_stat_rng r = tn_stat_rng_of(seed, STREAM_ORDER);
  r.at = ((uint64_t)block << TURN_BITS | (turn & ((1u << TURN_BITS) - 1))) << 8;
  shuffle(r, n, order);
}

/* Prompt of a block: every prompt once a round, each round in an order of its own. */
static uint32_t prompt_of(const tn_ab_exp *e, uint32_t block)
{
  uint32_t order[TN_AB_MAX_PROMPTS];
  tn_stat_rng r = tn_stat_rng_of(e->seed, STREAM_PROMPTS);
  r.at = (uint64_t)(block / e->n_prompts) << 12;
  shuffle(r, e->n_prompts, order);
  return order[block % e->n_prompts];
}

static tn_status failed(const tn_ab_exp *e, uint32_t v, tn_status st, tn_err *err)
{
  tn_err_prefix(err, "%s (%s)", e->variant[v].name, e->variant[v].title);
  return st;
}

/* All variants up to so many tokens, in a drawn order. */
static tn_status turn(tn_ab_run *r, uint32_t block, uint32_t number, int64_t tokens, tn_ab_sample *row, tn_err *err)
{
  uint32_t order[TN_AB_MAX_VARIANTS];
  tn_ab_order(r->e->seed, block, number, r->e->n_variants, order);
  for (uint32_t i = 0; i < r->e->n_variants; i++) {
    tn_status st = tn_ab_rig_advance(&r->rig[order[i]], tokens, err);
    if (st != TN_OK) return failed(r->e, order[i], st, err);
    if (number == 0) row[order[i]].place = i;
  }
  return TN_OK;
}

static tn_status block(tn_ab_run *r, uint32_t number, uint32_t prompt, tn_ab_sample *row, tn_err *err)
{
  tn_ab_exp *e = r->e;
  int64_t slice = e->slice > 0 ? e->slice : e->n_gen, tokens = 1;
  const tn_ab_tokens *p = &r->prompt[prompt];
  for (uint32_t v = 0; v < e->n_variants; v++) {
    tn_status st = tn_ab_rig_begin(&r->rig[v], p->at, p->n, err);
    if (st != TN_OK) return failed(e, v, st, err);
  }
  for (uint32_t t = 0;; t++) {
    tn_status st = turn(r, number, t, tokens, row, err);
    if (st != TN_OK) return st;
    if (tokens == e->n_gen) break;
    tokens = tokens + slice < e->n_gen ? tokens + slice : e->n_gen;
  }
  for (uint32_t v = 0; v < e->n_variants; v++) {
    tn_ab_rig_figures(&r->rig[v], v ? &r->rig[0] : NULL, row[v].x);
    row[v].done = true;
  }
  return TN_OK;
}

/* Servers: each its whole run. */
static tn_status block_of_servers(tn_ab_run *r, uint32_t number, uint32_t prompt, tn_ab_sample *row, tn_err *err)
{
  tn_ab_exp *e = r->e;
  uint32_t order[TN_AB_MAX_VARIANTS];
  tn_ab_order(e->seed, number, 0, e->n_variants, order);
  for (uint32_t i = 0; i < e->n_variants; i++) {
    tn_status st = tn_ab_remote_run(&r->remote[order[i]], e->prompt[prompt].text, e->seed, r->stop, err);
    if (st != TN_OK) return failed(e, order[i], st, err);
    row[order[i]].place = i;
  }
  if (r->remote[0].n_prompt > 0) e->prompt[prompt].n_tokens = r->remote[0].n_prompt;
  for (uint32_t v = 0; v < e->n_variants; v++) {
    tn_ab_remote_figures(&r->remote[v], &r->remote[0], row[v].x);
    row[v].done = true;
  }
  return TN_OK;
}

static tn_status run_block(tn_ab_run *r, uint32_t number, uint32_t prompt, tn_ab_sample *row, tn_err *err)
{
  return (r->remote ? block_of_servers : block)(r, number, prompt, row, err);
}

tn_status tn_ab_warm_up(tn_ab_run *r, tn_err *err)
{
  tn_ab_sample row[TN_AB_MAX_VARIANTS] = {0};
  return run_block(r, UINT32_MAX >> TURN_BITS, 0, row, err);
}

tn_status tn_ab_blocks(tn_ab_run *r, uint32_t n, tn_err *err)
{
  tn_ab_exp *e = r->e;
  uint64_t start = tn_now_ns();
  tn_status st = TN_OK;
  for (uint32_t i = 0; st == TN_OK && i < n; i++) {
    tn_ab_sample *row;
    uint32_t number = e->n_blocks, prompt = prompt_of(e, number);
    if (r->go && !r->go(r->ctx, e)) {
      e->partial = true;
      break;
    }
    st = tn_ab_exp_block(e, prompt, &row);
    if (st != TN_OK) return tn_fail(err, st, "no memory for block %u", number);
    st = run_block(r, number, prompt, row, err);
    if (st != TN_OK) tn_ab_exp_drop(e);
    if (st == TN_E_STATE && r->stop && r->stop()) st = TN_OK, e->partial = true;
    if (e->partial) break;
  }
  e->seconds += (double)(tn_now_ns() - start) / 1e9;
  return st;
}
