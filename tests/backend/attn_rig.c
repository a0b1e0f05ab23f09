/* attn_rig: see attn_rig.h. */
#include "attn_rig.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <string.h>

const tn_layout attn_f32 = {.struct_size = sizeof(tn_layout), .kind = TN_LAY_DENSE, .dtype = TN_DT_F32};
const tn_layout attn_f16 = {.struct_size = sizeof(tn_layout), .kind = TN_LAY_DENSE, .dtype = TN_DT_F16};
const tn_layout attn_bf16 = {.struct_size = sizeof(tn_layout), .kind = TN_LAY_DENSE, .dtype = TN_DT_BF16};

static void set_defaults(attn_cfg *c)
{
  if (!c->backend) c->backend = "ref";
  if (!c->threads) c->threads = 2;
  if (!c->n_heads) c->n_heads = 4, c->n_kv = 2;
  if (!c->d_head) c->d_head = 8;
  if (!c->d_v) c->d_v = 8;
  if (!c->page_tokens) c->page_tokens = 16;
  if (!c->pages) c->pages = 64;
  if (!c->n_layouts) c->n_layouts = 1;
  if (c->scale == 0) c->scale = 1.0f / sqrtf((float)c->d_head);
  for (uint32_t i = 0; i < c->n_layouts; i++) {
    if (!c->k_lay[i]) c->k_lay[i] = &attn_f32;
    if (!c->v_lay[i]) c->v_lay[i] = &attn_f32;
  }
}

static void add_groups(attn *a)
{
  static const int32_t layers[1] = {0}, heads[8] = {0, 1, 2, 3, 4, 5, 6, 7};
  static const uint32_t pools[ATTN_LAYOUTS] = {0, 1, 2, 3};
  const attn_cfg *c = &a->cfg;
  for (uint32_t g = 0; g < (c->per_head ? c->n_kv : 1); g++) {
    prog_group(&a->p, (tn_kv_group){.struct_size = sizeof(tn_kv_group),
                                    .kind = c->state ? TN_KV_STATE : TN_KV_CACHE,
                                    .n_layers = 1,
                                    .n_heads = c->per_head ? 1 : c->n_kv,
                                    .d_k = c->d_head,
                                    .d_v = c->d_v,
                                    .keys = c->keys,
                                    .n_layouts = c->n_layouts,
                                    .layers = layers,
                                    .heads = heads + g,
                                    .pools = pools,
                                    .k_layouts = a->cfg.k_lay,
                                    .v_layouts = a->cfg.v_lay,
                                    .state = c->state,
                                    .state_pool = c->n_layouts});
  }
}

static void add_records(attn *a)
{
  const attn_cfg *c = &a->cfg;
  tn_op_attend p = {.n_heads = c->n_heads,
                    .n_kv_heads = c->n_kv,
                    .d_head = c->d_head,
                    .d_v = c->d_v,
                    .scale = c->scale,
                    .softcap = c->softcap,
                    .n_masks = c->n_masks,
                    .rope_style = c->rope_style,
                    .rope_dims = c->rope_dims,
                    .tiles = c->tiles,
                    .n_sinks = c->n_sinks};
  for (uint32_t i = 0; i < c->n_masks; i++) prog_mask(&a->p, c->masks[i]);
  if (c->rope_dims) prog_table(&a->p, c->rope_dims);
  a->q = prog_act(&a->p, TN_ROWS_ALL, c->n_heads * c->d_head);
  a->qs = prog_act(&a->p, TN_ROWS_ALL, c->n_heads * c->d_head);
  a->k = prog_act(&a->p, TN_ROWS_ALL, c->n_kv * c->d_head);
  a->v = prog_act(&a->p, TN_ROWS_ALL, c->n_kv * c->d_v);
  a->o = prog_act(&a->p, TN_ROWS_ALL, c->n_heads * c->d_v);
  a->lse = prog_act(&a->p, TN_ROWS_ALL, c->n_heads);
  tn_op *write = prog_op(&a->p, TN_OP_KV_WRITE, a->k, a->v, -1, -1, -1);
  write->p.attend = p;
  write->flags = c->write_flags;
  tn_op *mix = prog_op(&a->p, c->state ? TN_OP_STATE_MIX : TN_OP_ATTEND, a->q, c->n_sinks ? a->qs : -1, a->o, -1, -1);
  mix->p.attend = p;
  mix->flags = c->attend_flags;
  if (!c->state) mix->out[1] = a->lse;
}

void attn_open(attn *a, const attn_cfg *cfg)
{
  tn_err err = {.struct_size = sizeof err};
  memset(a, 0, sizeof *a);
  a->cfg = *cfg;
  set_defaults(&a->cfg);
  const uint32_t n = a->cfg.pages, pages[ATTN_LAYOUTS + 1] = {n, n, n, n, n};
  a->be = backend_open(a->cfg.backend, a->cfg.threads, NULL, &err);
  cr_assert(a->be != NULL, "%s", err.msg);
  prog_init(&a->p);
  add_groups(a);
  add_records(a);
  const tn_kv_plan plan = {.struct_size = sizeof plan,
                           .n_pools = a->cfg.n_layouts + (a->cfg.state ? 1 : 0),
                           .page_tokens = a->cfg.page_tokens,
                           .n_groups = a->p.pr.n_groups,
                           .pool_pages = pages,
                           .groups = a->p.pr.groups};
  cr_assert(eq(i32, a->be->v->kv_open(a->be->inst, &plan, &a->kv, &err), TN_OK), "%s", err.msg);
  const tn_prepare how = {
      .struct_size = sizeof how, .flags = a->cfg.prep_flags, .max_rows = RIG_ROWS, .max_out = RIG_ROWS};
  cr_assert(eq(i32, a->be->v->prepare(a->be->inst, &a->p.pr, &how, a->kv, &a->prep, &err), TN_OK), "%s", err.msg);
}

void attn_close(attn *a)
{
  a->be->v->prepared_free(a->be->inst, a->prep);
  a->be->v->kv_close(a->be->inst, a->kv);
  cr_assert(eq(u64, backend_close(a->be), 0));
}

void attn_step(attn *a, const step *s, const float *q, const float *qs, const float *k, const float *v, float *out,
               float *lse)
{
  const int64_t n = s->b.n_rows;
  rig_put(a->be, a->prep, a->q, q, n);
  if (qs) rig_put(a->be, a->prep, a->qs, qs, n);
  rig_put(a->be, a->prep, a->k, k, n);
  rig_put(a->be, a->prep, a->v, v, n);
  cr_assert(eq(i32, a->be->v->run(a->be->inst, a->prep, 0, a->p.pr.n_ops, &s->b), TN_OK));
  rig_get(a->be, a->prep, a->o, out, n);
  if (lse) rig_get(a->be, a->prep, a->lse, lse, n);
}

void attn_feed(attn *a, rig_seq *seq, int64_t n, int64_t chunk, const float *q, const float *qs, const float *k,
               const float *v, float *out, float *lse)
{
  static step s;
  const attn_cfg *c = &a->cfg;
  const int64_t qw = (int64_t)c->n_heads * c->d_head, kw = (int64_t)c->n_kv * c->d_head, vw = (int64_t)c->n_kv * c->d_v;
  for (int64_t t = 0; t < n; t += chunk) {
    const int64_t m = n - t < chunk ? n - t : chunk;
    step_init(&s);
    const int32_t id = step_seq(&s, seq);
    for (int64_t i = 0; i < m; i++) step_row(&s, id, 0, t + i, (int32_t)i);
    attn_step(a, &s, q + t * qw, qs ? qs + t * qw : NULL, k + t * kw, v + t * vw, out + t * c->n_heads * c->d_v,
              lse ? lse + t * c->n_heads : NULL);
    rig_seq_commit(seq, m);
  }
}

bool attn_sees(const tn_mask *masks, uint32_t n, int64_t i, int64_t j)
{
  if (j > i) return false;
  for (uint32_t m = 0; m < n; m++) {
    const tn_mask *k = &masks[m];
    const bool window = k->lo <= i - j && i - j < k->hi && (i - j) % k->stride == k->residue;
    if (j >= k->sinks && !window) return false;
  }
  return true;
}

double attn_dense(const float *q, const float *qs, const uint8_t *is_sink, const float *k, int64_t k_stride,
                  const float *v, int64_t v_stride, const uint8_t *sees, int64_t n, const attn_cfg *cfg, double *out,
                  double *p)
{
  double score[1024], max = -INFINITY, sum = 0;
  cr_assert(le(i64, n, 1024));
  for (int64_t j = 0; j < n; j++) {
    const float *query = is_sink && is_sink[j] ? qs : q;
    double s = 0;
    for (uint32_t i = 0; i < cfg->d_head; i++) s += (double)query[i] * (double)k[j * k_stride + i];
    s *= (double)cfg->scale;
    if (cfg->softcap > 0) s = (double)cfg->softcap * tanh(s / (double)cfg->softcap);
    score[j] = s;
    if (sees[j] && s > max) max = s;
  }
  for (int64_t j = 0; j < n; j++) sum += sees[j] ? exp(score[j] - max) : 0;
  for (uint32_t i = 0; i < cfg->d_v; i++) out[i] = 0;
  for (int64_t j = 0; j < n; j++) {
    const double share = sees[j] ? exp(score[j] - max) / sum : 0;
    if (p) p[j] = share;
    for (uint32_t i = 0; i < cfg->d_v; i++) out[i] += share * (double)v[j * v_stride + i];
  }
  return sum > 0 ? max + log(sum) : -INFINITY;
}
