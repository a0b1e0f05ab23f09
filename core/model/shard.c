/* shard: see shard.h. */
#include "shard.h"

#include <inttypes.h>

tn_par_plan tn_par_whole(const tn_model *m)
{
  const tn_model_shape *s = &m->shape;
  return (tn_par_plan){.struct_size = sizeof(tn_par_plan),
                       .world = 1,
                       .layer1 = s->n_layers,
                       .n_heads = s->n_heads,
                       .n_kv_heads = s->n_kv_heads,
                       .n_ff = s->d_ff,
                       .n_vocab = s->n_vocab,
                       .in_flight = 1};
}

bool tn_par_splits_heads(const tn_model *m, const tn_par_plan *par) { return par->n_heads != m->shape.n_heads; }

bool tn_par_splits_ff(const tn_model *m, const tn_par_plan *par) { return par->n_ff != m->shape.d_ff; }

bool tn_par_splits_vocab(const tn_model *m, const tn_par_plan *par) { return par->n_vocab != m->shape.n_vocab; }

/* [at, at + n) is not empty and inside [0, all). */
static tn_status check_range(const tn_par_plan *par, const char *what, int64_t at, int64_t n, int64_t all, tn_err *err)
{
  if (at >= 0 && n > 0 && at < all && n <= all - at) return TN_OK;
  return tn_fail(err, TN_E_ARG, "parallel plan of rank %u: %s %" PRId64 " to %" PRId64 " of %" PRId64, par->rank, what,
                 at, at + n - 1, all);
}

/* A sum over k columns cut at [at, at + n): do the cuts fall on the segments that one rank would sum in? */
static tn_status check_cut(const tn_model *m, const tn_par_plan *par, const char *what, int64_t at, int64_t n,
                           int64_t k, tn_err *err)
{
  uint32_t segments = tn_model_segments(m, k);
  if (segments > 1 && at % (k / segments) == 0 && n % (k / segments) == 0) return TN_OK;
  return tn_fail(err, TN_E_UNSUPPORTED,
                 "parallel plan of rank %u: %s sums over %" PRId64 " columns in %u segments, which columns %" PRId64
                 " to %" PRId64 " do not cover whole",
                 par->rank, what, k, segments, at, at + n - 1);
}

static tn_status check_heads(const tn_model *m, const tn_par_plan *par, tn_err *err)
{
  const tn_model_shape *s = &m->shape;
  uint32_t per = s->n_heads / s->n_kv_heads;
  tn_status st;
  if ((st = check_range(par, "heads", par->head0, par->n_heads, s->n_heads, err))) return st;
  if ((st = check_range(par, "KV heads", par->kv_head0, par->n_kv_heads, s->n_kv_heads, err))) return st;
  if (par->head0 != par->kv_head0 * per || par->n_heads != par->n_kv_heads * per)
    return tn_fail(err, TN_E_UNSUPPORTED,
                   "parallel plan of rank %u: heads %u to %u are not those of KV heads %u to %u (%u heads each)",
                   par->rank, par->head0, par->head0 + par->n_heads - 1, par->kv_head0,
                   par->kv_head0 + par->n_kv_heads - 1, per);
  if (!tn_par_splits_heads(m, par)) return TN_OK;
  return check_cut(m, par, "attn_out", (int64_t)par->head0 * s->d_head, (int64_t)par->n_heads * s->d_head,
                   tn_model_dim(m, TN_DIM_Q), err);
}

tn_status tn_par_check(const tn_model *m, const tn_par_plan *par, tn_err *err)
{
  const tn_model_shape *s = &m->shape;
  tn_status st;
  if (par->world == 0 || par->rank >= par->world)
    return tn_fail(err, TN_E_ARG, "parallel plan: rank %u of %u", par->rank, par->world);
  if (par->sequence != TN_SEQ_WHOLE)
    return tn_fail(err, TN_E_UNSUPPORTED, "parallel plan of rank %u: sequences divided among ranks (kind %u)",
                   par->rank, par->sequence);
  if ((st = check_range(par, "layers", par->layer0, (int64_t)par->layer1 - par->layer0, s->n_layers, err))) return st;
  if ((st = check_heads(m, par, err))) return st;
  if ((st = check_range(par, "feed-forward channels", par->ff0, par->n_ff, s->d_ff, err))) return st;
  if (tn_par_splits_ff(m, par) && (st = check_cut(m, par, "ffn_down", par->ff0, par->n_ff, s->d_ff, err))) return st;
  if ((st = check_range(par, "logits", par->vocab0, par->n_vocab, s->n_vocab, err))) return st;
  bool stages = par->layer1 - par->layer0 != s->n_layers;
  if (stages && (tn_par_splits_heads(m, par) || tn_par_splits_ff(m, par) || tn_par_splits_vocab(m, par)))
    return tn_fail(err, TN_E_UNSUPPORTED,
                   "parallel plan of rank %u: it divides both layers (%u to %u of %u) and their "
                   "contents",
                   par->rank, par->layer0, par->layer1 - 1, s->n_layers);
  return TN_OK;
}

/* Shares [at, at + n) of two neighbours: both have all of it, or one begins where the other ends. */
static tn_status check_joint(const tn_par_plan *a, const tn_par_plan *b, const char *what, const int64_t of_a[2],
                             const int64_t of_b[2], int64_t all, tn_err *err)
{
  bool whole = of_b[0] == 0 && of_b[1] == all && (!a || (of_a[0] == 0 && of_a[1] == all));
  int64_t end = a ? of_a[0] + of_a[1] : 0;
  bool last = b->rank + 1 == b->world;
  if (!whole && of_b[0] != end)
    return tn_fail(err, TN_E_ARG,
                   "parallel plan of rank %u: its %s begin with %" PRId64 ", those before end at %" PRId64, b->rank,
                   what, of_b[0], end);
  if (last && of_b[0] + of_b[1] != all)
    return tn_fail(err, TN_E_ARG, "parallel plan of rank %u, the last one: its %s end at %" PRId64 " of %" PRId64,
                   b->rank, what, of_b[0] + of_b[1], all);
  return TN_OK;
}

tn_status tn_par_check_joint(const tn_model *m, const tn_par_plan *before, const tn_par_plan *par, tn_err *err)
{
  const tn_model_shape *s = &m->shape;
  const tn_par_plan *a = before ? before : par;
  const struct {
    const char *what;
    int64_t of_a[2], of_b[2], all;
  } shares[] = {{"layers",
                 {a->layer0, (int64_t)a->layer1 - a->layer0},
                 {par->layer0, (int64_t)par->layer1 - par->layer0},
                 s->n_layers},
                {"KV heads", {a->kv_head0, a->n_kv_heads}, {par->kv_head0, par->n_kv_heads}, s->n_kv_heads},
                {"feed-forward channels", {a->ff0, a->n_ff}, {par->ff0, par->n_ff}, s->d_ff},
                {"logits", {a->vocab0, a->n_vocab}, {par->vocab0, par->n_vocab}, s->n_vocab}};
  for (size_t i = 0; i < TN_ARRAY_LEN(shares); i++) {
    tn_status st = check_joint(before, par, shares[i].what, shares[i].of_a, shares[i].of_b, shares[i].all, err);
    if (st) return st;
  }
  return TN_OK;
}

/* What the plan does to a part: which range of which side. */
tn_shard tn_shard_of(const tn_model *m, const tn_par_plan *par, uint32_t part)
{
  const tn_part_info *info = tn_part(part);
  int64_t dh = m->shape.d_head;
  tn_shard s = {.kind = TN_SHARD_COPY, .n_rows = tn_model_dim(m, info->n), .n_cols = tn_model_dim(m, info->k)};
  switch (info->role) {
    case TN_ROLE_Q: s.row0 = par->head0 * dh, s.n_rows = par->n_heads * dh; break;
    case TN_ROLE_K:
    case TN_ROLE_V: s.row0 = par->kv_head0 * dh, s.n_rows = par->n_kv_heads * dh; break;
    case TN_ROLE_GATE:
    case TN_ROLE_UP: s.row0 = par->ff0, s.n_rows = par->n_ff; break;
    case TN_ROLE_HEAD: s.row0 = par->vocab0, s.n_rows = par->n_vocab; break;
    case TN_ROLE_ATTN_OUT: s.col0 = par->head0 * dh, s.n_cols = par->n_heads * dh; break;
    case TN_ROLE_DOWN: s.col0 = par->ff0, s.n_cols = par->n_ff; break;
    default: break;
  }
  if (s.n_rows != tn_model_dim(m, info->n)) s.kind = TN_SHARD_ROWS;
  if (s.n_cols != tn_model_dim(m, info->k)) s.kind = TN_SHARD_COLS;
  return s;
}

tn_shard tn_shard_of_bias(const tn_model *m, const tn_par_plan *par, uint32_t part)
{
  tn_shard w = tn_shard_of(m, par, part);
  bool rows = w.kind == TN_SHARD_ROWS; /* a cut of outputs is a cut of the bias's columns */
  return (tn_shard){.kind = rows ? TN_SHARD_COLS : TN_SHARD_COPY, .n_rows = 1, .col0 = w.row0, .n_cols = w.n_rows};
}
