/* sees: which cached text positions a query sees.
 *
 * j <= i, every mask of the record agrees, and with tile lists the key tile j / 64 is listed. The record's first mask is
 * then the tile owner's own: it counts in tiles of kind MASK only, the others count everywhere. */
#include "ref.h"

static bool mask_sees(const tn_mask *m, int64_t i, int64_t j)
{
  const int64_t d = i - j;
  return j < m->sinks || (m->lo <= d && d < m->hi && d % m->stride == m->residue);
}

/* Index of key tile t in the list, or -1. */
static int64_t find_tile(const tn_tile_list *list, int64_t t)
{
  int64_t lo = 0, hi = list->n;
  while (lo < hi) {
    const int64_t mid = (lo + hi) / 2;
    if (list->tile[mid] < t)
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo < (int64_t)list->n && list->tile[lo] == t ? lo : -1;
}

tn_status tn_ref_sight_of(const ref_call *c, int64_t row, uint32_t kv_head, ref_sight *out)
{
  const tn_op_attend *a = &c->op->p.attend;
  const tn_batch *b = c->b;
  *out = (ref_sight){.pos = b->text_pos[row], .masks = c->p->masks + a->mask, .n_masks = a->n_masks};
  if (!a->tiles) return TN_OK;
  if (a->tiles > b->n_tile_sets || !b->tile_sets) return TN_E_ARG;
  const uint64_t at =
      ((uint64_t)(a->tiles - 1) * b->n_seqs + (uint64_t)b->seq[row]) * c->p->n_kv_heads + a->kv_head0 + kv_head;
  const tn_tile_set *set = b->tile_sets[at];
  const int64_t q = out->pos / 64 - (set ? set->first : 0);
  if (!set || q < 0 || q >= (int64_t)set->n || !set->lists[q]) return TN_E_ARG;
  out->tiles = set->lists[q];
  return TN_OK;
}

bool tn_ref_sees(const ref_sight *s, int64_t j)
{
  if (j > s->pos) return false;
  uint32_t first = 0; /* mask that counts */
  if (s->tiles) {
    const int64_t at = find_tile(s->tiles, j / 64);
    if (at < 0) return false;
    if (s->tiles->kind[at] != TN_TILE_MASK) first = 1;
    if (s->tiles->kind[at] == TN_TILE_BITMAP && !(s->tiles->bitmap[at * 64 + s->pos % 64] >> (j % 64) & 1))
      return false;
  }
  for (uint32_t i = first; i < s->n_masks; i++) {
    if (!mask_sees(&s->masks[i], s->pos, j)) return false;
  }
  return true;
}
