/* rig: see rig.h. */
#include "rig.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

/* ---------------------------------------------------------------- program */

void prog_init(prog *p)
{
  memset(p, 0, sizeof *p);
  p->pr = (tn_program){.struct_size = sizeof(tn_program),
                       .ops = p->op_ptr,
                       .acts = p->act_ptr,
                       .weights = p->weight_ptr,
                       .groups = p->group_ptr,
                       .masks = p->masks,
                       .table_dims = p->table_dims};
}

int32_t prog_act(prog *p, uint32_t rows, int64_t cols)
{
  const uint32_t i = p->pr.n_acts++;
  cr_assert(lt(u32, i, RIG_ACTS));
  p->acts[i] = (tn_act){.struct_size = sizeof(tn_act), .rows = rows, .cols = cols, .name = "act"};
  p->act_ptr[i] = &p->acts[i];
  return (int32_t)i;
}

int32_t prog_weight(prog *p, tn_tensor w)
{
  const uint32_t i = p->pr.n_weights++;
  cr_assert(lt(u32, i, RIG_WEIGHTS));
  p->weights[i] = w;
  p->weight_ptr[i] = &p->weights[i];
  return (int32_t)i;
}

uint32_t prog_group(prog *p, tn_kv_group g)
{
  const uint32_t i = p->pr.n_groups++;
  cr_assert(lt(u32, i, RIG_GROUPS));
  p->groups[i] = g;
  p->group_ptr[i] = &p->groups[i];
  for (uint32_t h = 0; h < g.n_heads; h++)
    if ((uint32_t)g.heads[h] >= p->pr.n_kv_heads) p->pr.n_kv_heads = (uint32_t)g.heads[h] + 1;
  return i;
}

uint32_t prog_mask(prog *p, tn_mask m)
{
  cr_assert(lt(u32, p->pr.n_masks, RIG_MASKS));
  p->masks[p->pr.n_masks] = m;
  return p->pr.n_masks++;
}

uint32_t prog_table(prog *p, uint32_t dims)
{
  cr_assert(lt(u32, p->pr.n_tables, RIG_TABLES));
  p->table_dims[p->pr.n_tables] = dims;
  return p->pr.n_tables++;
}

tn_op *prog_op(prog *p, uint32_t kind, int32_t in0, int32_t in1, int32_t out0, int32_t w0, int32_t w1)
{
  static const char *const names[4] = {"op0", "op1", "op2", "op3"};
  const uint32_t i = p->pr.n_ops++;
  cr_assert(lt(u32, i, RIG_OPS));
  p->ops[i] = (tn_op){.struct_size = sizeof(tn_op),
                      .kind = kind,
                      .name = i < 4 ? names[i] : "op",
                      .in = {in0, in1, -1, -1},
                      .out = {out0, -1},
                      .w = {w0, w1}};
  p->op_ptr[i] = &p->ops[i];
  return &p->ops[i];
}

/* ---------------------------------------------------------------- batch */

void rig_seq_init(rig_seq *s, uint64_t id, uint32_t n_groups, int32_t first_page, uint32_t n_pages)
{
  cr_assert(le(u32, n_groups, RIG_GROUPS));
  cr_assert(le(u32, n_pages, RIG_PAGES));
  memset(s, 0, sizeof *s);
  for (uint32_t g = 0; g < n_groups; g++) {
    for (uint32_t i = 0; i < n_pages; i++) s->page[g][i] = first_page + (int32_t)(g * n_pages + i);
    s->view[g] = (tn_kv_view){.struct_size = sizeof(tn_kv_view), .n_pages = n_pages, .page = s->page[g]};
    s->view_ptr[g] = &s->view[g];
  }
  s->sv = (tn_seq_view){.struct_size = sizeof(tn_seq_view), .n_groups = n_groups, .id = id, .kv = s->view_ptr};
}

void rig_seq_commit(rig_seq *s, int64_t n)
{
  for (uint32_t g = 0; g < s->sv.n_groups; g++) s->view[g].n += n;
}

void step_init(step *s)
{
  memset(s, 0, sizeof *s);
  s->b = (tn_batch){.struct_size = sizeof(tn_batch),
                    .token = s->token,
                    .seq = s->seq,
                    .text_pos = s->text_pos,
                    .ord = s->ord,
                    .slot = s->slot,
                    .path = s->path,
                    .path_off = s->path_off,
                    .out_row = s->out_row,
                    .signal = s->signal,
                    .seqs = s->seqs,
                    .signals = s->signals};
}

int32_t step_seq(step *s, const rig_seq *q)
{
  cr_assert(lt(u32, s->b.n_seqs, RIG_SEQS));
  s->seqs[s->b.n_seqs] = &q->sv;
  return (int32_t)s->b.n_seqs++;
}

int32_t step_row(step *s, int32_t seq, int32_t token, int64_t text_pos, int32_t ord)
{
  const uint32_t r = s->b.n_rows++;
  cr_assert(lt(u32, r, RIG_ROWS));
  s->token[r] = token;
  s->seq[r] = seq;
  s->text_pos[r] = text_pos;
  s->ord[r] = s->slot[r] = ord;
  s->path_off[r] = s->signal[r] = -1;
  return (int32_t)r;
}

int32_t step_node(step *s, int32_t seq, int32_t token, int64_t text_pos, int32_t ord, int32_t slot, const int32_t *path)
{
  const int32_t r = step_row(s, seq, token, text_pos, ord);
  cr_assert(le(u32, s->b.n_path + (uint32_t)ord, RIG_PATH));
  s->slot[r] = slot;
  s->path_off[r] = (int32_t)s->b.n_path;
  for (int32_t o = 0; o < ord; o++) s->path[s->b.n_path++] = path[o];
  return r;
}

void step_want(step *s, int32_t row) { s->out_row[s->b.n_out++] = row; }

/* ---------------------------------------------------------------- data */

float rig_random(uint64_t *seed)
{
  *seed = *seed * 6364136223846793005ull + 1442695040888963407ull;
  return (float)((double)(*seed >> 33) / 1073741824.0 - 1.0);
}

void rig_fill(float *x, int64_t n, uint64_t seed)
{
  seed = seed * 0x9e3779b97f4a7c15ull + 1;
  for (int64_t i = 0; i < n; i++) x[i] = rig_random(&seed);
}

void rig_put(backend *b, tn_prepared *p, int32_t act, const float *src, int64_t n)
{
  tn_tensor t;
  cr_assert(eq(i32, b->v->act(b->inst, p, (uint32_t)act, &t), TN_OK));
  for (int64_t r = 0; r < n; r++) {
    const uint64_t at = t.offset + (uint64_t)(r * t.nb[1]);
    cr_assert(eq(i32, b->v->upload(b->inst, t.buf, at, src + r * t.ne[0], (uint64_t)t.ne[0] * 4), TN_OK));
  }
  cr_assert(eq(i32, b->v->sync(b->inst), TN_OK));
}

void rig_get(backend *b, tn_prepared *p, int32_t act, float *dst, int64_t n)
{
  tn_tensor t;
  cr_assert(eq(i32, b->v->act(b->inst, p, (uint32_t)act, &t), TN_OK));
  for (int64_t r = 0; r < n; r++) {
    const uint64_t at = t.offset + (uint64_t)(r * t.nb[1]);
    cr_assert(eq(i32, b->v->download(b->inst, t.buf, at, dst + r * t.ne[0], (uint64_t)t.ne[0] * 4), TN_OK));
  }
  cr_assert(eq(i32, b->v->sync(b->inst), TN_OK));
}

tn_tensor rig_weight(backend *b, const float *w, int64_t n, int64_t k)
{
  tn_err err = {.struct_size = sizeof err};
  tn_tensor t;
  const tn_weight_src src = {.struct_size = sizeof src,
                             .kind = TN_W_F32,
                             .name = "w",
                             .n = n,
                             .k = k,
                             .data = w,
                             .bytes = (uint64_t)(n * k) * sizeof *w};
  cr_assert(eq(i32, b->v->weight_load(b->inst, &src, &t, &err), TN_OK), "%s", err.msg);
  return t;
}
