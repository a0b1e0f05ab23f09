/* evict: the mechanism of score-based eviction. The plugin scores, the host chooses, compacts and renumbers.
 *
 * Decisions are made when a given number of tokens of the sequence is committed, never at a step, so batching and
 * chunking cannot change them. Position-only policies are masks and never come here. See engine_int.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine_int.h"

static bool alloc_scratch(tn_engine *e)
{
  tn_evictor *v = &e->ev;
  size_t groups = e->n_groups, cap = e->cap_entries;
  v->node_signals = tn_zalloc((size_t)e->cfg.max_seqs * TN_MAX_NODES, sizeof *v->node_signals);
  v->score = tn_zalloc(groups, sizeof *v->score);
  v->verdict = tn_zalloc(groups, sizeof *v->verdict);
  v->units = tn_zalloc(groups, sizeof *v->units);
  v->unit_ptrs = tn_zalloc(groups, sizeof *v->unit_ptrs);
  v->order = tn_zalloc(cap, sizeof *v->order);
  v->map = tn_zalloc(cap, sizeof *v->map);
  v->tmp = tn_zalloc(cap, sizeof *v->tmp);
  v->layout = tn_zalloc(cap, 1);
  bool ok = v->node_signals && v->score && v->verdict && v->units && v->unit_ptrs && v->order && v->map && v->tmp &&
            v->layout;
  for (size_t g = 0; ok && g < groups; g++) {
    v->score[g] = tn_zalloc(cap, sizeof **v->score);
    v->verdict[g] = tn_zalloc(cap, 1);
    v->unit_ptrs[g] = &v->units[g];
    ok = v->score[g] && v->verdict[g];
  }
  return ok;
}

tn_status tn_evictor_open(tn_engine *e, tn_err *err)
{
  if (!e->ev.scores) return TN_OK;
  return alloc_scratch(e) ? TN_OK : tn_fail(err, TN_E_NOMEM, "no memory for eviction scores");
}

void tn_evictor_close(tn_engine *e)
{
  tn_evictor *v = &e->ev;
  for (size_t i = 0; v->node_signals && i < (size_t)e->cfg.max_seqs * TN_MAX_NODES; i++)
    tn_signals_free(v->node_signals[i], e->n_groups);
  for (uint32_t g = 0; g < e->n_groups; g++) {
    if (v->score) free(v->score[g]);
    if (v->verdict) free(v->verdict[g]);
  }
  free(v->node_signals);
  free(v->score);
  free(v->verdict);
  free(v->units);
  free(v->unit_ptrs);
  free(v->order);
  free(v->map);
  free(v->tmp);
  free(v->layout);
}

/* When to act next, and what to keep if it is now. A function of positions: it may be asked again. */
static tn_status ask_when(tn_engine *e, const tn_seq *s, tn_evict_when *w, tn_err *err)
{
  *w = (tn_evict_when){.struct_size = sizeof *w,
                       .seq = s->id,
                       .n_prompt = s->n_given,
                       .pos = s->n_done,
                       .next = TN_POS_INF,
                       .keep = -1,
                       .full = -1};
  tn_status st = e->ev.v->when(e->eviction.inst, w);
  if (st != TN_OK) return tn_fail(err, st, "eviction/%s: when: %s", e->eviction.desc->name, tn_status_name(st));
  if (w->next <= s->n_done || w->keep < -1 || w->full < -1 || (w->full >= 0 && !e->ev.spec.demotes))
    return tn_fail(err, TN_E_INTERNAL, "eviction/%s: when: at %lld tokens next = %lld, keep = %lld, full = %lld",
                   e->eviction.desc->name, (long long)s->n_done, (long long)w->next, (long long)w->keep,
                   (long long)w->full);
  return TN_OK;
}

tn_status tn_evict_begin(tn_engine *e, tn_seq *s, tn_err *err)
{
  tn_evict_when w;
  if (!e->ev.scores) return TN_OK;
  s->window_end = e->ev.spec.signals & TN_SIG_ATTN_WINDOW ? s->n_given : 0;
  tn_status st = ask_when(e, s, &w, err);
  s->next_evict = w.next;
  return st;
}

/* A complete window stays what it is. An open one belongs to a prompt that may end elsewhere now: then what it gathered
 * counts as plain attention, and the window of the new prompt gathers from here on. */
void tn_evict_continue(tn_engine *e, tn_seq *s, int64_t window_end, int64_t next_evict)
{
  s->next_evict = next_evict;
  if (!e->ev.scores) return;
  if (window_end == 0) s->window_end = 0;
  if (window_end == 0 || window_end == s->n_given) return;
  for (uint32_t g = 0; g < e->n_groups; g++) {
    int64_t *attn = s->signals->attn[g], *win = s->signals->win[g];
    for (int64_t r = 0; attn && r < s->kv->t[g].n; r++) attn[r] += win[r];
    memset(win, 0, (size_t)s->kv->t[g].n * sizeof *win);
  }
}

tn_signals *const *tn_evict_node_signals(tn_engine *e, uint32_t running_index, const tn_seq *s)
{
  tn_evictor *v = &e->ev;
  if (!v->scores || s->n_nodes == 0) return NULL;
  tn_signals **mine = v->node_signals + (size_t)running_index * TN_MAX_NODES;
  uint32_t sig = v->spec.signals;
  for (uint32_t i = 0; i < s->n_nodes; i++) {
    if (!mine[i]) mine[i] = tn_signals_new(e->n_groups, e->cap_entries, sig & TN_SIG_ATTN, false, sig & TN_SIG_KNORM);
    if (!mine[i]) return NULL;
    for (uint32_t g = 0; g < e->n_groups; g++) {
      size_t bytes = (size_t)(s->kv->t[g].n + s->run + s->n_nodes) * sizeof(int64_t);
      if (mine[i]->attn[g]) memset(mine[i]->attn[g], 0, bytes);
      if (mine[i]->knorm[g]) memset(mine[i]->knorm[g], 0, bytes);
    }
  }
  return mine;
}

/* What accepted nodes signalled joins the sequence's figures; entries of this step move from slots to ranks. */
void tn_evict_accept(tn_engine *e, uint32_t running_index, tn_seq *s, uint32_t n_path, const int32_t *path)
{
  if (!e->ev.scores || n_path == 0) return;
  tn_signals **mine = e->ev.node_signals + (size_t)running_index * TN_MAX_NODES;
  for (uint32_t g = 0; g < e->n_groups; g++) {
    int64_t n = s->kv->t[g].n;
    int64_t *attn = s->signals->attn[g], *knorm = s->signals->knorm[g];
    for (uint32_t i = 0; i < n_path; i++) {
      const tn_signals *node = mine[path[i]];
      int64_t slot = n + s->run + path[i], rank = n + s->run + i;
      if (knorm) knorm[rank] = node->knorm[g][slot];
      if (!attn) continue;
      for (int64_t r = 0; r < n + s->run; r++) attn[r] += node->attn[g][r];
      for (uint32_t k = 0; k <= i; k++) attn[n + s->run + k] += node->attn[g][n + s->run + path[k]];
    }
  }
}

static void fill_unit(tn_engine *e, const tn_seq *s, uint32_t g, int64_t keep)
{
  const tn_kv_table *t = &s->kv->t[g];
  const tn_kv_group *d = &e->groups.g[g].desc;
  const tn_signals *sig = s->signals;
  memset(e->ev.verdict[g], TN_KEEP, (size_t)t->n);
  memset(e->ev.score[g], 0, (size_t)t->n * sizeof **e->ev.score);
  e->ev.units[g] = (tn_evict_unit){.struct_size = sizeof(tn_evict_unit),
                                   .group = g,
                                   .layer = (uint32_t)d->layers[0],
                                   .head = (uint32_t)d->heads[0],
                                   .n = t->n,
                                   .keep = keep,
                                   .pos = t->text_pos,
                                   .attn = sig->attn[g],
                                   .window = sig->win[g],
                                   .knorm = sig->knorm[g],
                                   .score = e->ev.score[g],
                                   .verdict = e->ev.verdict[g]};
}

typedef struct ranked {
  float score;
  uint32_t reserved0;
  int64_t entry;
} ranked;

static int by_score(const void *a, const void *b)
{
  const ranked *x = a, *y = b;
  if (x->score != y->score) return x->score > y->score ? -1 : 1;
  return x->entry > y->entry ? -1 : x->entry < y->entry; /* ties: the later one stays */
}

static int ascending(const void *a, const void *b)
{
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return x < y ? -1 : x > y;
}

/* Entries that stay, ascending, into ev.order, and the verdict that demotes those beyond the best `full` (-1: none);
 * returns how many, or -1 on a score that is not finite, -2: no memory. */
static int64_t choose(tn_engine *e, const tn_evict_unit *u, int64_t full)
{
  ranked *r = malloc((size_t)(u->n > 0 ? u->n : 1) * sizeof *r);
  int64_t n = 0;
  if (!r) return -2;
  for (int64_t i = 0; i < u->n; i++) {
    if (u->pos[i] < 0 || u->verdict[i] == TN_DROP) continue;
    if (!isfinite(u->score[i])) {
      free(r);
      return -1;
    }
    r[n++] = (ranked){u->score[i], 0, i};
  }
  qsort(r, (size_t)n, sizeof *r, by_score);
  if (n > u->keep) n = u->keep;
  for (int64_t i = 0; i < n; i++) e->ev.order[i] = r[i].entry;
  for (int64_t i = full; full >= 0 && i < n; i++) u->verdict[r[i].entry] = TN_DEMOTE;
  free(r);
  qsort(e->ev.order, (size_t)n, sizeof *e->ev.order, ascending);
  return n;
}

static void move_signal(tn_evictor *v, int64_t *a, int64_t n_old, int64_t n, int64_t n_new)
{
  if (!a) return;
  memcpy(v->tmp, a, (size_t)n_old * sizeof *a);
  memset(a, 0, (size_t)(n_old > n_new ? n_old : n_new) * sizeof *a);
  for (int64_t i = 0; i < n; i++) a[v->map[i]] = v->tmp[v->order[i]];
}

static tn_status apply(tn_engine *e, tn_seq *s, uint32_t g, int64_t full, tn_err *err)
{
  tn_evictor *v = &e->ev;
  const tn_evict_unit *u = &v->units[g];
  const tn_kv_table *t = &s->kv->t[g];
  int64_t before = t->live, n_old = t->n, n = choose(e, u, full), demoted = 0;
  if (n == -1)
    return tn_fail(err, TN_E_INTERNAL, "eviction/%s: a score of group %u is not finite", e->eviction.desc->name, g);
  if (n < 0) return tn_fail(err, TN_E_NOMEM, "no memory to choose what stays");
  for (int64_t i = 0; i < n; i++) {
    bool low = v->spec.demotes && u->verdict[v->order[i]] == TN_DEMOTE;
    bool was = t->layout[v->order[i] / e->groups.page_tokens] != 0;
    v->layout[i] = low || was;
    demoted += low && !was;
  }
  bool gaps = e->groups.g[g].desc.keys == TN_KEYS_RAW ? t->next_rope != n : n != before;
  if (!gaps && demoted == 0) return TN_OK;
  tn_status st = tn_kv_compact(e->kv, s->kv, g, n, v->order, v->layout, v->map);
  if (st != TN_OK) return tn_fail(err, st, "eviction of group %u: %s", g, tn_status_name(st));
  move_signal(v, s->signals->attn[g], n_old, n, s->kv->t[g].n);
  move_signal(v, s->signals->win[g], n_old, n, s->kv->t[g].n);
  move_signal(v, s->signals->knorm[g], n_old, n, s->kv->t[g].n);
  s->n_dropped += (uint64_t)(before - n);
  s->n_demoted += (uint64_t)demoted;
  return TN_OK;
}

/* Attention of the prompt's last rows was gathered apart; it belongs to the total as well. */
static void join_window(tn_engine *e, tn_seq *s)
{
  if (s->window_end == 0 || s->n_done < s->window_end) return;
  s->window_end = 0;
  for (uint32_t g = 0; g < e->n_groups; g++) {
    if (!s->signals->attn[g] || !s->signals->win[g]) continue;
    for (int64_t r = 0; r < s->kv->t[g].n; r++) s->signals->attn[g][r] += s->signals->win[g][r];
  }
}

/* Keys that are rotated by rank share one query in each class of layers, so its groups must be equally long. */
static tn_status check_ranks(const tn_engine *e, const tn_seq *s, tn_err *err)
{
  const uint32_t *class_of = e->model->shape.layer_class;
  for (uint32_t g = 1; e->ev.spec.rank_rope && g < e->n_groups; g++) {
    const tn_kv_group *d = &e->groups.g[g].desc, *other;
    uint32_t k = 0; /* the first group of the class */
    for (; k < g; k++) {
      other = &e->groups.g[k].desc;
      if (other->kind == TN_KV_CACHE && class_of[other->layers[0]] == class_of[d->layers[0]]) break;
    }
    long long x = s->kv->t[k].next_rope, y = s->kv->t[g].next_rope;
    if (d->kind == TN_KV_CACHE && x != y)
      return tn_fail(
          err, TN_E_INTERNAL,
          "eviction/%s: group %u keeps %lld entries and group %u %lld; keys rotated by rank need as many in all",
          e->eviction.desc->name, k, x, g, y);
  }
  return TN_OK;
}

/* The policy scores all groups at once; then each keeps its best. Pages are put aside already. */
static tn_status decide(tn_engine *e, tn_seq *s, const tn_evict_when *w, tn_err *err)
{
  uint32_t n = 0;
  for (uint32_t g = 0; g < e->n_groups; g++) {
    const tn_kv_group *d = &e->groups.g[g].desc;
    if (d->kind != TN_KV_CACHE || (uint32_t)d->layers[0] < e->ev.spec.first_layer) continue;
    fill_unit(e, s, g, w->keep);
    e->ev.unit_ptrs[n++] = &e->ev.units[g];
  }
  tn_status st = n > 0 ? e->ev.v->score(e->eviction.inst, s->id, n, e->ev.unit_ptrs) : TN_OK;
  if (st != TN_OK) return tn_fail(err, st, "eviction/%s: score: %s", e->eviction.desc->name, tn_status_name(st));
  for (uint32_t i = 0; st == TN_OK && i < n; i++) st = apply(e, s, e->ev.unit_ptrs[i]->group, w->full, err);
  return st == TN_OK ? check_ranks(e, s, err) : st;
}

tn_status tn_evict_act(tn_engine *e, tn_seq *s, tn_err *err)
{
  tn_evict_when w;
  if (!e->ev.scores) return TN_OK;
  join_window(e, s);
  if (s->n_done < s->next_evict) return TN_OK;
  tn_status st = ask_when(e, s, &w, err);
  if (st == TN_OK && w.keep >= 0) {
    for (uint32_t g = 0; g < e->n_groups; g++) tn_kv_forget_hidden(e->kv, s->kv, g, s->n_done);
    st = tn_kv_compact_begin(e->kv, s->kv, w.keep, e->ev.spec.demotes != 0);
    if (st != TN_OK) return st;
    st = decide(e, s, &w, err);
    tn_kv_compact_end(e->kv);
  }
  if (st == TN_OK) s->next_evict = w.next;
  return st;
}
