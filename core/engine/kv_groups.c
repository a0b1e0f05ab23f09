/* kv_groups: which layers and KV heads share a page table, and how many pages each pool has. See kv.h.
 *
 * Two (layer, head) pairs share a group when the eviction unit puts them together, both are of one kind (cache or
 * state) and the same masks free their entries. Groups of equal page size share a pool. */
#include <stdlib.h>
#include <string.h>

#include "kv.h"

#define MAX_GROUPS 16384u
#define SLACK_TILES 2 /* spare tiles of a windowed sequence: one partly freed, one partly filled */

typedef struct cell { /* what one (layer, KV head) asks for */
  uint32_t kind, n_rules;
  uint32_t cls;   /* rope class; tells groups apart where keys are raw: they are rotated by a table per group */
  uint32_t alone; /* 1: the eviction policy leaves the layer alone */
  const tn_state_spec *state;
  tn_free_rule rules[TN_KV_MAX_FREE_RULES];
} cell;

static void add_rule(cell *c, int64_t hi, int64_t sinks)
{
  if (hi <= 0 || hi >= TN_POS_INF) return;
  for (uint32_t i = 0; i < c->n_rules; i++)
    if (c->rules[i].hi == hi && c->rules[i].sinks == sinks) return;
  if (c->n_rules < TN_KV_MAX_FREE_RULES) c->rules[c->n_rules++] = (tn_free_rule){hi, sinks};
}

static cell cell_of(const tn_group_in *in, uint32_t layer, uint32_t head)
{
  const tn_model_shape *s = in->shape;
  const tn_attn_spec *a = &in->attn[(size_t)layer * s->n_kv_heads + head];
  cell c = {.kind = TN_KV_CACHE};
  if (a->kind == TN_AT_STATE) {
    c.kind = TN_KV_STATE;
    c.state = a->state;
    return c;
  }
  if (in->evict && in->evict->rank_rope) c.cls = s->layer_class[layer];
  if (in->evict && in->evict->kind == TN_EV_SCORE) c.alone = layer < in->evict->first_layer;
  int64_t window = s->class_window[s->layer_class[layer]];
  if (window > 0) add_rule(&c, window, 0);
  if (a->kind == TN_AT_MASK) add_rule(&c, a->mask.hi, a->mask.sinks);
  if (in->evict && in->evict->kind == TN_EV_POSITION) add_rule(&c, in->evict->mask.hi, in->evict->mask.sinks);
  return c;
}

static bool same_cell(const cell *a, const cell *b)
{
  return a->kind == b->kind && a->cls == b->cls && a->alone == b->alone && a->state == b->state &&
         a->n_rules == b->n_rules && memcmp(a->rules, b->rules, a->n_rules * sizeof a->rules[0]) == 0;
}

/* Bytes of one entry's values in a layout, scales included, rounded up. */
static uint64_t layout_bytes(const tn_layout *l, uint32_t width)
{
  if (l->kind == TN_LAY_DENSE) return (uint64_t)width * (l->dtype == TN_DT_F32 ? 4u : 2u);
  uint64_t bits = l->kind == TN_LAY_FLOAT8 ? 8u : l->bits ? l->bits : 32u;
  uint64_t groups = l->group ? (width + l->group - 1) / l->group : 1;
  uint64_t scale = l->scale_type == TN_DT_F32 ? 4u : 2u;
  return (bits * width + 7) / 8 + groups * scale * (l->offset == TN_OFF_NONE ? 1u : 2u);
}

/* Same group: the same cell, and the eviction unit allows it. group_of[] is filled for all earlier cells. */
static uint32_t find_group(const tn_group_in *in, const cell *cells, const uint32_t *group_of, uint32_t at,
                           uint32_t gran)
{
  uint32_t heads = in->shape->n_kv_heads, layer = at / heads;
  if (gran == TN_GRAN_HEAD) return UINT32_MAX;
  uint32_t first = gran == TN_GRAN_LAYER ? layer * heads : 0;
  for (uint32_t i = first; i < at; i++)
    if (same_cell(&cells[i], &cells[at])) return group_of[i];
  return UINT32_MAX;
}

/* A group must be a full product of layers and heads; where heads of one layer differ, heads split by layer. */
static bool is_product(const tn_group_in *in, const uint32_t *group_of, uint32_t g, uint32_t n_cells)
{
  uint32_t heads = in->shape->n_kv_heads;
  int64_t want = -1;
  for (uint32_t l = 0; l < n_cells / heads; l++) {
    int64_t set = 0;
    for (uint32_t h = 0; h < heads; h++)
      if (group_of[l * heads + h] == g) set = set * 31 + h + 1;
    if (set == 0) continue;
    if (want >= 0 && set != want) return false;
    want = set;
  }
  return true;
}

static tn_status fill_group(const tn_group_in *in, const cell *c, const uint32_t *group_of, uint32_t g, tn_group *out)
{
  const tn_model_shape *s = in->shape;
  int32_t *layers = tn_zalloc(s->n_layers, sizeof *layers), *heads = tn_zalloc(s->n_kv_heads, sizeof *heads);
  uint32_t *pools = tn_zalloc(2, sizeof *pools);
  const tn_layout **k = tn_zalloc(2, sizeof *k), **v = tn_zalloc(2, sizeof *v);
  out->desc =
      (tn_kv_group){.struct_size = sizeof(tn_kv_group),
                    .kind = c->kind,
                    .d_k = s->d_head,
                    .d_v = s->d_head,
                    .keys = in->evict && in->evict->rank_rope && c->kind == TN_KV_CACHE ? TN_KEYS_RAW : TN_KEYS_ROTATED,
                    .n_layouts = c->kind == TN_KV_STATE ? 1 : in->n_layouts,
                    .layers = layers,
                    .heads = heads,
                    .pools = pools,
                    .k_layouts = k,
                    .v_layouts = v,
                    .state = c->state};
  if (!layers || !heads || !pools || !k || !v) return TN_E_NOMEM;
  for (uint32_t i = 0; i < in->n_layouts; i++) k[i] = in->k_layouts[i], v[i] = in->v_layouts[i];
  uint32_t n_heads = 0, n_layers = 0;
  for (uint32_t l = 0; l < s->n_layers; l++) {
    uint32_t in_layer = 0;
    for (uint32_t h = 0; h < s->n_kv_heads; h++) {
      if (group_of[l * s->n_kv_heads + h] != g) continue;
      if (n_layers == 0) heads[n_heads++] = (int32_t)h;
      in_layer = 1;
    }
    if (in_layer) layers[n_layers++] = (int32_t)l;
  }
  out->desc.n_layers = n_layers;
  out->desc.n_heads = n_heads;
  out->n_rules = c->n_rules;
  memcpy(out->rules, c->rules, sizeof out->rules);
  out->held_limit = TN_POS_INF;
  for (uint32_t i = 0; i < c->n_rules; i++) {
    int64_t held = c->rules[i].hi + c->rules[i].sinks + in->max_rows + in->rollback + SLACK_TILES * 64;
    if (held < out->held_limit) out->held_limit = held;
  }
  if (c->kind == TN_KV_STATE) out->held_limit = in->max_rows + (SLACK_TILES + 1) * 64;
  return TN_OK;
}

/* Pools: one for each distinct page size in bytes. */
static uint32_t pool_for(tn_groups *out, uint64_t bytes)
{
  for (uint32_t i = 0; i < out->n_pools; i++)
    if (out->page_bytes[i] == bytes) return i;
  out->page_bytes[out->n_pools] = bytes;
  return out->n_pools++;
}

static void place_in_pools(const tn_group_in *in, tn_groups *out)
{
  for (uint32_t i = 0; i < out->n; i++) {
    tn_group *g = &out->g[i];
    uint32_t *pools = (uint32_t *)(uintptr_t)g->desc.pools;
    int64_t most = in->max_ctx + in->max_rows;
    if (g->held_limit < most) most = g->held_limit;
    uint32_t pages = (uint32_t)((most + in->page_tokens - 1) / in->page_tokens) + 1;
    for (uint32_t l = 0; l < g->desc.n_layouts; l++) {
      uint64_t row = layout_bytes(g->desc.k_layouts[l], g->desc.d_k) + layout_bytes(g->desc.v_layouts[l], g->desc.d_v);
      pools[l] = pool_for(out, row * in->page_tokens * g->desc.n_layers * g->desc.n_heads);
      out->pages_per_seq[pools[l]] += l > 0 ? 2 * pages : pages; /* demoted entries: old and new places at once */
    }
    if (g->desc.kind == TN_KV_STATE) {
      uint64_t floats =
          (uint64_t)(g->desc.state->n_features ? g->desc.state->n_features : g->desc.d_k) * (g->desc.d_v + 1);
      g->desc.state_pool = pool_for(out, floats * 4 * g->desc.n_layers * g->desc.n_heads + 1); /* odd: never shared */
      out->pages_per_seq[g->desc.state_pool] += 1;
    }
  }
}

static tn_status size_pools(const tn_group_in *in, tn_groups *out, tn_err *err)
{
  uint64_t one = 0;
  for (uint32_t p = 0; p < out->n_pools; p++) one += out->pages_per_seq[p] * out->page_bytes[p];
  double share = in->budget_bytes ? (double)in->budget_bytes / (double)one : (double)in->max_seqs;
  if (share > in->max_seqs) share = in->max_seqs;
  for (uint32_t p = 0; p < out->n_pools; p++) {
    double pages = (double)out->pages_per_seq[p] * share;
    if (pages > 1e9)
      return tn_fail(err, TN_E_ARG,
                     "the KV cache would need %.0f pages; lower [engine] ctx or max_seqs, or give it a kv_budget",
                     pages);
    out->pool_pages[p] = pages < 1 ? 1 : (uint32_t)pages;
  }
  return TN_OK;
}

static tn_status make_groups(const tn_group_in *in, const cell *cells, uint32_t *group_of, uint32_t n_cells,
                             tn_groups *out)
{
  uint32_t gran = in->evict && in->evict->kind == TN_EV_SCORE ? in->evict->gran : TN_GRAN_ALL;
  for (uint32_t i = 0; i < n_cells; i++) {
    uint32_t g = find_group(in, cells, group_of, i, gran);
    group_of[i] = g == UINT32_MAX ? out->n++ : g;
  }
  for (uint32_t g = 0; g < out->n; g++) {
    if (is_product(in, group_of, g, n_cells)) continue;
    gran = TN_GRAN_LAYER; /* heads differ from layer to layer: fall to groups inside a layer */
    out->n = 0;
    for (uint32_t i = 0; i < n_cells; i++) {
      uint32_t k = find_group(in, cells, group_of, i, gran);
      group_of[i] = k == UINT32_MAX ? out->n++ : k;
    }
    break;
  }
  out->g = tn_zalloc(out->n, sizeof *out->g);
  out->pool_pages = tn_zalloc(3 * (size_t)out->n, sizeof *out->pool_pages);
  out->pages_per_seq = tn_zalloc(3 * (size_t)out->n, sizeof *out->pages_per_seq);
  out->page_bytes = tn_zalloc(3 * (size_t)out->n, sizeof *out->page_bytes);
  if (!out->g || !out->pool_pages || !out->pages_per_seq || !out->page_bytes) return TN_E_NOMEM;
  for (uint32_t g = 0; g < out->n; g++) {
    uint32_t first = 0;
    while (group_of[first] != g) first++;
    tn_status st = fill_group(in, &cells[first], group_of, g, &out->g[g]);
    if (st != TN_OK) return st;
  }
  return TN_OK;
}

tn_status tn_groups_plan(const tn_group_in *in, tn_groups *out, tn_err *err)
{
  *out = (tn_groups){.page_tokens = in->page_tokens, .rollback = in->rollback};
  if (in->page_tokens == 0 || 64 % in->page_tokens != 0)
    return tn_fail(err, TN_E_ARG, "page_tokens = %u: must divide 64", in->page_tokens);
  size_t n = (size_t)in->shape->n_layers * in->shape->n_kv_heads;
  if (n > MAX_GROUPS) return tn_fail(err, TN_E_ARG, "%zu layers x KV heads: at most %u are supported", n, MAX_GROUPS);
  cell *cells = tn_zalloc(n, sizeof *cells);
  uint32_t *group_of = tn_zalloc(n, sizeof *group_of);
  tn_status st = cells && group_of ? TN_OK : TN_E_NOMEM;
  for (size_t i = 0; st == TN_OK && i < n; i++)
    cells[i] = cell_of(in, (uint32_t)(i / in->shape->n_kv_heads), (uint32_t)(i % in->shape->n_kv_heads));
  if (st == TN_OK) st = make_groups(in, cells, group_of, (uint32_t)n, out);
  free(cells);
  free(group_of);
  if (st == TN_OK) {
    place_in_pools(in, out);
    st = size_pools(in, out, err);
  } else {
    tn_fail(err, st, "no memory for the KV page groups");
  }
  if (st != TN_OK) tn_groups_release(out);
  return st;
}

void tn_groups_release(tn_groups *g)
{
  for (uint32_t i = 0; g->g && i < g->n; i++) {
    tn_kv_group *d = &g->g[i].desc;
    free((void *)(uintptr_t)d->layers);
    free((void *)(uintptr_t)d->heads);
    free((void *)(uintptr_t)d->pools);
    free((void *)(uintptr_t)d->k_layouts);
    free((void *)(uintptr_t)d->v_layouts);
  }
  free(g->g);
  free(g->pool_pages);
  free(g->pages_per_seq);
  free(g->page_bytes);
  *g = (tn_groups){0};
}

tn_kv_group **tn_groups_rank(const tn_groups *g, uint32_t head0, uint32_t n_heads)
{
  tn_kv_group **out = tn_zalloc(g->n, sizeof *out);
  if (!out) return NULL;
  for (uint32_t i = 0; i < g->n; i++) {
    const tn_kv_group *d = &g->g[i].desc;
    out[i] = malloc(sizeof *out[i] + d->n_heads * sizeof(int32_t));
    if (!out[i]) {
      tn_groups_rank_free(out, g->n);
      return NULL;
    }
    int32_t *heads = (int32_t *)(out[i] + 1);
    *out[i] = *d;
    out[i]->heads = heads;
    out[i]->n_heads = 0;
    for (uint32_t h = 0; h < d->n_heads; h++)
      if (d->heads[h] >= (int32_t)head0 && d->heads[h] < (int32_t)(head0 + n_heads))
        heads[out[i]->n_heads++] = d->heads[h];
  }
  return out;
}

void tn_groups_rank_free(tn_kv_group **groups, uint32_t n)
{
  for (uint32_t i = 0; groups && i < n; i++) free(groups[i]);
  free(groups);
}
