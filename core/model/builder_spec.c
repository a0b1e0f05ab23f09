/* builder_spec: which KV group holds a head's entries, which heads one record can serve, and who sees whom. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "builder_int.h"

static size_t cell(const tn_maker *b, uint32_t layer, uint32_t kv_head)
{
  return (size_t)layer * b->m->shape.n_kv_heads + kv_head;
}

/* Enters one group into group_of. */
static void enter_group(tn_maker *b, uint32_t i)
{
  const tn_model_shape *s = &b->m->shape;
  const tn_kv_group *g = b->in->groups[i];
  if (g->d_k != s->d_head || g->d_v != s->d_head) {
    tn_mk_fail(b, TN_E_ARG, "KV group %u has keys of %u and values of %u columns, the model's heads have %u", i, g->d_k,
               g->d_v, s->d_head);
    return;
  }
  for (uint32_t l = 0; l < g->n_layers; l++) {
    for (uint32_t h = 0; h < g->n_heads; h++) {
      int32_t layer = g->layers[l], head = g->heads[h];
      if (layer < 0 || head < 0 || (uint32_t)layer >= s->n_layers || (uint32_t)head >= s->n_kv_heads) {
        tn_mk_fail(b, TN_E_ARG, "KV group %u has layer %d, KV head %d; the model has %u layers of %u", i, layer, head,
                   s->n_layers, s->n_kv_heads);
        return;
      }
      uint32_t *at = &b->group_of[cell(b, (uint32_t)layer, (uint32_t)head)];
      if (*at != UINT32_MAX) {
        tn_mk_fail(b, TN_E_ARG, "layer %d, KV head %d is in KV groups %u and %u", layer, head, *at, i);
        return;
      }
      *at = i;
    }
  }
}

void tn_mk_groups(tn_maker *b)
{
  const tn_model_shape *s = &b->m->shape;
  tn_built_own *own = b->out;
  size_t n = (size_t)s->n_layers * s->n_kv_heads;
  b->group_of = tn_zalloc(n, sizeof *b->group_of);
  own->groups = tn_zalloc(b->in->n_groups, sizeof *own->groups);
  if (!b->group_of || !own->groups) {
    tn_mk_fail(b, TN_E_NOMEM, "no memory for the program");
    return;
  }
  for (size_t i = 0; i < n; i++) b->group_of[i] = UINT32_MAX;
  for (uint32_t i = 0; i < b->in->n_groups && !b->st; i++) {
    own->groups[i] = b->in->groups[i];
    enter_group(b, i);
  }
  own->b.program.n_groups = b->in->n_groups;
}

static tn_attn_spec spec_of(const tn_maker *b, uint32_t layer, uint32_t kv_head)
{
  static const tn_attn_spec full = {.struct_size = sizeof(tn_attn_spec), .kind = TN_AT_MASK, .mask = TN_MASK_ALL};
  return b->in->attn ? *b->in->attn[cell(b, layer, kv_head)] : full;
}

/* A mask that the kernels can apply. */
static bool mask_ok(const tn_mask *m)
{
  return m->stride >= 1 && m->residue >= 0 && m->residue < m->stride && m->sinks >= 0 && m->lo < m->hi;
}

static bool passes_all(const tn_mask *m) { return m->lo <= 0 && m->hi >= TN_POS_INF && m->stride == 1; }

static void check_cell(tn_maker *b, uint32_t layer, uint32_t head)
{
  tn_attn_spec s = spec_of(b, layer, head);
  uint32_t g = b->group_of[cell(b, layer, head)];
  bool state = s.kind == TN_AT_STATE;
  if (g == UINT32_MAX) {
    tn_mk_fail(b, TN_E_ARG, "layer %u, KV head %u is in no KV group", layer, head);
  } else if (s.kind != TN_AT_MASK && s.kind != TN_AT_TILES && !state) {
    tn_mk_fail(b, TN_E_ARG, "attention of layer %u, KV head %u is of kind %u, allowed are 1 to 3", layer, head, s.kind);
  } else if (!state && !mask_ok(&s.mask)) {
    tn_mk_fail(b, TN_E_ARG,
               "attention mask of layer %u, KV head %u: lo %" PRId64 ", hi %" PRId64 ", stride %" PRId64
               ", residue %" PRId64 ", sinks %" PRId64 " is no mask",
               layer, head, s.mask.lo, s.mask.hi, s.mask.stride, s.mask.residue, s.mask.sinks);
  } else if (state && !s.state) {
    tn_mk_fail(b, TN_E_ARG, "attention of layer %u, KV head %u is recurrent without a state", layer, head);
  } else if (state != (b->in->groups[g]->kind == TN_KV_STATE)) {
    tn_mk_fail(b, TN_E_ARG, "attention of layer %u, KV head %u is %s, but KV group %u holds a %s", layer, head,
               state ? "recurrent" : "softmax", g, state ? "cache" : "state");
  }
}

void tn_mk_check_specs(tn_maker *b)
{
  const tn_par_plan *par = &b->par;
  const tn_evict_spec *e = b->in->evict;
  if (e && e->kind == TN_EV_POSITION && !mask_ok(&e->mask))
    tn_mk_fail(b, TN_E_ARG, "eviction mask: lo %" PRId64 ", hi %" PRId64 ", stride %" PRId64 " is no mask", e->mask.lo,
               e->mask.hi, e->mask.stride);
  for (uint32_t l = par->layer0; l < par->layer1; l++)
    for (uint32_t h = 0; h < par->n_kv_heads && !b->st; h++) check_cell(b, l, par->kv_head0 + h);
}

void tn_mk_tile_sets(tn_maker *b)
{
  const tn_model_shape *s = &b->m->shape;
  for (uint32_t l = 0; l < s->n_layers; l++) {
    bool tiles = false;
    for (uint32_t h = 0; h < s->n_kv_heads; h++) tiles = tiles || spec_of(b, l, h).kind == TN_AT_TILES;
    if (tiles) tn_mk_add_tile_set(b, (int32_t)l);
  }
}

static bool same_state(const tn_state_spec *a, const tn_state_spec *b)
{
  return a == b || (a->phi == b->phi && a->n_features == b->n_features && a->fold == b->fold && a->eps == b->eps &&
                    a->features == b->features);
}

/* Can one record serve both heads? A STATE_MIX names one group, so its heads share it. */
static bool same_run(const tn_head_run *a, const tn_head_run *b)
{
  if (a->spec.kind != b->spec.kind || a->raw != b->raw) return false;
  if (a->spec.kind == TN_AT_STATE) return a->group == b->group && same_state(a->spec.state, b->spec.state);
  return a->spec.softcap == b->spec.softcap && memcmp(&a->spec.mask, &b->spec.mask, sizeof a->spec.mask) == 0;
}

static tn_head_run run_of_one(const tn_maker *b, uint32_t head)
{
  uint32_t layer = (uint32_t)b->layer, g = b->group_of[cell(b, layer, head)];
  tn_head_run r = {.kv_head0 = head, .n_kv_heads = 1, .group = g, .spec = spec_of(b, layer, head)};
  r.raw = r.spec.kind == TN_AT_STATE || b->in->groups[g]->keys == TN_KEYS_RAW;
  return r;
}

/* The longest run of this rank's heads of the current layer that starts at kv_head0. */
tn_head_run tn_mk_run(tn_maker *b, uint32_t kv_head0)
{
  tn_head_run r = run_of_one(b, kv_head0);
  for (uint32_t h = kv_head0 + 1; h < b->par.kv_head0 + b->par.n_kv_heads; h++) {
    tn_head_run next = run_of_one(b, h);
    if (!same_run(&r, &next)) break;
    r.n_kv_heads++;
  }
  return r;
}

/* The variant's mask, the window of the layer's class, the eviction mask: those that hide something. With tile lists the
 * variant's comes first whatever it hides: it is the one that full tiles and bitmaps stand in for. */
void tn_mk_run_masks(tn_maker *b, const tn_head_run *run, tn_op_attend *p)
{
  const tn_model_shape *s = &b->m->shape;
  int64_t window = s->class_window[s->layer_class[b->layer]];
  const tn_evict_spec *e = b->in->evict;
  tn_mask list[3];
  uint32_t n = 0;
  if (run->spec.kind == TN_AT_TILES || !passes_all(&run->spec.mask)) list[n++] = run->spec.mask;
  if (window > 0) list[n++] = (tn_mask){0, window, 1, 0, 0};
  if (e && e->kind == TN_EV_POSITION && !passes_all(&e->mask)) list[n++] = e->mask;
  tn_mk_masks(b, list, n, p);
}

uint32_t tn_mk_sinks(const tn_maker *b)
{
  const tn_evict_spec *e = b->in->evict;
  return e && e->kind == TN_EV_POSITION && e->renumber > 0 ? (uint32_t)e->mask.sinks : 0;
}
