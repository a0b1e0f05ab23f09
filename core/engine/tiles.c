/* tiles: the key tiles that irregular attention patterns ask for, once a step. See engine_int.h. */
#include <stdlib.h>

#include "engine_int.h"

#define TILE 64

static uint32_t n_sets(const tn_engine *e) { return e->exec->ranks[0].built->n_tile_sets; }

tn_status tn_tiler_open(tn_engine *e, tn_err *err)
{
  tn_tiler *t = &e->tiler;
  size_t n = (size_t)n_sets(e) * e->cfg.max_seqs * e->model->shape.n_kv_heads;
  if (n == 0) return TN_OK;
  t->cap_tiles = (uint32_t)(e->cfg.ctx / TILE + 2);
  t->sets = tn_zalloc(n, sizeof *t->sets);
  t->set_store = tn_zalloc(n, sizeof *t->set_store);
  return t->sets && t->set_store ? TN_OK : tn_fail(err, TN_E_NOMEM, "no memory for attention tile lists");
}

static void list_free(tn_tile_list *l)
{
  free(l->tile);
  free(l->kind);
  free(l->bitmap);
  free(l);
}

void tn_tiler_close(tn_engine *e)
{
  tn_tiler *t = &e->tiler;
  for (uint32_t i = 0; i < t->n_made; i++) list_free(t->lists[i]);
  free(t->lists);
  free(t->list_ptrs);
  free(t->sets);
  free(t->set_store);
}

/* A list to fill; they are kept from step to step, so a steady engine allocates none. */
static tn_tile_list *take_list(tn_tiler *t)
{
  if (t->used < t->n_made) return t->lists[t->used++];
  tn_tile_list **grown = realloc(t->lists, (t->n_made + 1) * sizeof *grown);
  if (!grown) return NULL;
  t->lists = grown;
  tn_tile_list *l = tn_zalloc(1, sizeof *l);
  if (!l) return NULL;
  l->struct_size = sizeof *l;
  l->cap = t->cap_tiles;
  l->tile = tn_zalloc(l->cap, sizeof *l->tile);
  l->kind = tn_zalloc(l->cap, 1);
  l->bitmap = tn_zalloc((size_t)l->cap * TILE, sizeof *l->bitmap);
  if (!l->tile || !l->kind || !l->bitmap) {
    list_free(l);
    return NULL;
  }
  t->lists[t->n_made++] = l;
  t->used = t->n_made;
  return l;
}

static bool grow_ptrs(tn_tiler *t, uint32_t n)
{
  if (n <= t->cap_ptrs) return true;
  const tn_tile_list **grown = realloc(t->list_ptrs, n * sizeof *grown);
  if (!grown) return false;
  t->list_ptrs = grown;
  t->cap_ptrs = n;
  return true;
}

/* A plugin's list is inside its arrays, ascends and names no tile of the future. */
static bool list_ok(const tn_tile_list *l, int64_t qtile)
{
  if (l->n > l->cap) return false;
  for (uint32_t i = 0; i < l->n; i++)
    if (l->tile[i] < 0 || l->tile[i] > qtile || l->kind[i] > TN_TILE_BITMAP || (i > 0 && l->tile[i] <= l->tile[i - 1]))
      return false;
  return true;
}

static tn_status fill_set(tn_engine *e, uint32_t layer, uint32_t head, int64_t pos0, int64_t last, tn_tile_set *set,
                          tn_err *err)
{
  tn_tiler *t = &e->tiler;
  const tn_attn_part *p = e->attention;
  while (layer < p->layer0 || layer >= p->layer1) p++;
  const tn_attention_v1 *v = p->in.desc->vtable;
  set->struct_size = sizeof *set;
  set->first = pos0 / TILE;
  set->n = (uint32_t)(last / TILE - set->first + 1);
  for (uint32_t i = 0; i < set->n; i++) {
    tn_tile_list *l = take_list(t);
    if (!l) return tn_fail(err, TN_E_NOMEM, "no memory for attention tile lists");
    l->n = 0;
    int64_t qtile = set->first + i, end = qtile * TILE + TILE - 1;
    tn_status st = v->tiles(p->in.inst, layer, head, qtile, end < last ? end : last, l);
    if (st != TN_OK)
      return tn_fail(err, st, "attention/%s: tiles of layer %u, KV head %u: %s", p->in.desc->name, layer, head,
                     tn_status_name(st));
    if (!list_ok(l, qtile))
      return tn_fail(
          err, TN_E_INTERNAL,
          "attention/%s: tiles of layer %u, KV head %u: the list of query tile %lld is no list of tiles up to it",
          p->in.desc->name, layer, head, (long long)qtile);
    t->list_ptrs[t->n_ptrs++] = l;
  }
  return TN_OK;
}

/* The last text position that a row of s has. */
static int64_t last_position(const tn_seq *s)
{
  uint32_t deepest = 0;
  for (uint32_t i = 0; i < s->n_nodes; i++) {
    uint32_t d = tn_node_depth(s, i);
    if (d > deepest) deepest = d;
  }
  return s->n_done + s->run - 1 + deepest;
}

tn_status tn_tiler_fill(tn_engine *e, tn_seq *const *seqs, uint32_t n, tn_batch *b, tn_err *err)
{
  tn_tiler *t = &e->tiler;
  uint32_t sets = n_sets(e), heads = e->model->shape.n_kv_heads, lists = 0;
  t->used = t->n_ptrs = 0;
  if (sets == 0) return TN_OK;
  for (uint32_t q = 0; q < n; q++) lists += (seqs[q]->run + TN_MAX_DEPTH) / TILE + 2;
  if (!grow_ptrs(t, lists * sets * heads)) return tn_fail(err, TN_E_NOMEM, "no memory for attention tile lists");
  for (uint32_t s = 0; s < sets; s++) {
    uint32_t layer = (uint32_t)e->exec->ranks[0].built->tile_layers[s];
    for (uint32_t q = 0; q < n; q++) {
      int64_t last = last_position(seqs[q]);
      for (uint32_t h = 0; h < heads; h++) {
        uint32_t at = (s * n + q) * heads + h, from = t->n_ptrs;
        tn_status st = fill_set(e, layer, h, seqs[q]->n_done, last, &t->set_store[at], err);
        if (st != TN_OK) return st;
        t->set_store[at].lists = t->list_ptrs + from;
        t->sets[at] = &t->set_store[at];
      }
    }
  }
  b->n_tile_sets = sets;
  b->tile_sets = t->sets;
  return TN_OK;
}
