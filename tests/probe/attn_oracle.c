/* attn_oracle: see attn_oracle.h. */
#include "attn_oracle.h"

#include <criterion/criterion.h>

#include "quant/dtype.h"

static bool mask_sees(const tn_mask *m, int64_t i, int64_t j)
{
  int64_t d = i - j;
  return j < m->sinks || (m->lo <= d && d < m->hi && d % m->stride == m->residue);
}

static bool sees(void *ctx, uint32_t layer, uint32_t head, int64_t i, int64_t j)
{
  const attn_oracle *o = ctx;
  if (layer < o->layer0 || layer >= o->layer1) return true;
  tn_mask own = probe_mask(o->seed, layer, head);
  if (o->kind == ORACLE_MASKS) return mask_sees(&own, i, j);
  if (o->kind != ORACLE_TILES) return mask_sees(&o->mask, i, j);
  switch (probe_tile(o->seed, layer, head, i / 64, j / 64)) {
    case PROBE_NO_TILE: return false;
    case TN_TILE_MASK: return mask_sees(&o->mask, i, j);
    case TN_TILE_BITMAP: return probe_bits(o->seed, layer, head, i, j / 64) >> j % 64 & 1;
    default: return true;
  }
}

/* Recurrent layers have no layout of their own: rows not yet in the state are kept in f16. */
static void stored(void *ctx, uint32_t layer, uint32_t head, int64_t i, int64_t j, float *k, float *v)
{
  const attn_oracle *o = ctx;
  (void)layer, (void)head, (void)i, (void)j;
  for (uint32_t c = 0; o->f16 && c < o->d_head; c++) {
    k[c] = tnk_f16_to_f32(tnk_f32_to_f16(k[c]));
    v[c] = tnk_f16_to_f32(tnk_f32_to_f16(v[c]));
  }
}

static const tn_state_spec *state(void *ctx, uint32_t layer, uint32_t head)
{
  attn_oracle *o = ctx;
  if (layer < o->layer0 || layer >= o->layer1) return NULL;
  bool recurrent = o->kind == ORACLE_ELU || o->kind == ORACLE_FAVOR || (o->kind == ORACLE_HALVES && head % 2 == 1);
  return recurrent ? &o->spec : NULL;
}

naive_hooks attn_oracle_hooks(attn_oracle *o, const tn_model *m)
{
  uint32_t n = PROBE_FEATURES * m->shape.d_head;
  cr_assert(n <= TN_ARRAY_LEN(o->features));
  o->d_head = m->shape.d_head;
  for (uint32_t i = 0; i < n; i++) o->features[i] = probe_feature(o->seed, i);
  o->spec = (tn_state_spec){.struct_size = sizeof o->spec,
                            .phi = o->kind == ORACLE_FAVOR ? TN_PHI_FAVOR : TN_PHI_ELU1,
                            .n_features = o->kind == ORACLE_FAVOR ? PROBE_FEATURES : 0,
                            .fold = 64,
                            .eps = 1e-6,
                            .features = o->kind == ORACLE_FAVOR ? o->features : NULL};
  return (naive_hooks){.ctx = o, .sees = sees, .stored = stored, .state = state};
}
