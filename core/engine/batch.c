/* batch: see batch.h. */
#include "batch.h"

#include <stdlib.h>
#include <string.h>

struct tn_batcher {
  tn_batch_cfg cfg;
  tn_batch b;
  int32_t *token, *seq, *ord, *slot, *path, *path_off, *out_row, *signal;
  int64_t *text_pos;
  tn_seq_view *views;
  const tn_seq_view **view_ptrs;
  const tn_signal **signals;
  float **cos, **sin, **sink_cos, **sink_sin; /* [n_classes] -> [max_rows][dims/2], sinks NULL without renumbering */
  int64_t *base;                              /* [n_classes] rope position of the sequence's first row */
};

static float **tables_new(uint32_t n, size_t floats, bool wanted)
{
  float **t = tn_zalloc(n, sizeof *t);
  for (uint32_t i = 0; t && wanted && i < n; i++) {
    t[i] = tn_zalloc(floats, sizeof **t);
    if (t[i]) continue;
    for (uint32_t k = 0; k < i; k++) free(t[k]);
    free(t);
    return NULL;
  }
  return t;
}

static void tables_free(float **t, uint32_t n)
{
  for (uint32_t i = 0; t && i < n; i++) free(t[i]);
  free(t);
}

tn_status tn_batcher_new(const tn_batch_cfg *cfg, tn_batcher **out, tn_err *err)
{
  *out = NULL;
  tn_batcher *b = tn_zalloc(1, sizeof *b);
  if (!b) return tn_fail(err, TN_E_NOMEM, "no memory for the batch");
  b->cfg = *cfg;
  size_t rows = cfg->max_rows, half = tn_rope_dims(cfg->rope) / 2;
  b->token = tn_zalloc(rows, sizeof *b->token);
  b->seq = tn_zalloc(rows, sizeof *b->seq);
  b->ord = tn_zalloc(rows, sizeof *b->ord);
  b->slot = tn_zalloc(rows, sizeof *b->slot);
  b->path = tn_zalloc(rows * (TN_MAX_DEPTH + 1), sizeof *b->path);
  b->path_off = tn_zalloc(rows, sizeof *b->path_off);
  b->out_row = tn_zalloc(cfg->max_out, sizeof *b->out_row);
  b->signal = tn_zalloc(rows, sizeof *b->signal);
  b->text_pos = tn_zalloc(rows, sizeof *b->text_pos);
  b->views = tn_zalloc(cfg->max_seqs, sizeof *b->views);
  b->view_ptrs = tn_zalloc(cfg->max_seqs, sizeof *b->view_ptrs);
  b->signals = tn_zalloc(2 * (size_t)cfg->max_seqs + rows, sizeof *b->signals);
  b->base = tn_zalloc(cfg->n_classes, sizeof *b->base);
  b->cos = tables_new(cfg->n_classes, rows * half, true);
  b->sin = tables_new(cfg->n_classes, rows * half, true);
  b->sink_cos = tables_new(cfg->n_classes, rows * half, cfg->renumber > 0);
  b->sink_sin = tables_new(cfg->n_classes, rows * half, cfg->renumber > 0);
  bool ok = b->token && b->seq && b->ord && b->slot && b->path && b->path_off && b->out_row && b->signal &&
            b->text_pos && b->views && b->view_ptrs && b->signals && b->base && b->cos && b->sin && b->sink_cos &&
            b->sink_sin;
  if (!ok) {
    tn_batcher_free(b);
    return tn_fail(err, TN_E_NOMEM, "no memory for a batch of %zu rows; lower [engine] max_rows", rows);
  }
  *out = b;
  return TN_OK;
}

void tn_batcher_free(tn_batcher *b)
{
  if (!b) return;
  tables_free(b->cos, b->cfg.n_classes);
  tables_free(b->sin, b->cfg.n_classes);
  tables_free(b->sink_cos, b->cfg.n_classes);
  tables_free(b->sink_sin, b->cfg.n_classes);
  free(b->token);
  free(b->seq);
  free(b->ord);
  free(b->slot);
  free(b->path);
  free(b->path_off);
  free(b->out_row);
  free(b->signal);
  free(b->text_pos);
  free(b->views);
  free(b->view_ptrs);
  free(b->signals);
  free(b->base);
  free(b);
}

void tn_batch_begin(tn_batcher *b)
{
  b->b = (tn_batch){.struct_size = sizeof(tn_batch),
                    .n_tables = b->cfg.n_classes,
                    .token = b->token,
                    .seq = b->seq,
                    .text_pos = b->text_pos,
                    .ord = b->ord,
                    .slot = b->slot,
                    .path = b->path,
                    .path_off = b->path_off,
                    .out_row = b->out_row,
                    .signal = b->cfg.signals ? b->signal : NULL,
                    .seqs = b->view_ptrs,
                    .signals = b->signals,
                    .cos = (const float *const *)b->cos,
                    .sin = (const float *const *)b->sin,
                    .sink_cos = (const float *const *)b->sink_cos,
                    .sink_sin = (const float *const *)b->sink_sin};
}

uint32_t tn_node_depth(const tn_seq *s, uint32_t node)
{
  uint32_t d = 1;
  for (int32_t p = s->node_parent[node]; p >= 0; p = s->node_parent[p]) d++;
  return d;
}

/* Rope position of the first row of s in each class: its text position, or, where keys are rotated by rank, the rank that
 * its entry gets in the groups of the class (evict.c keeps them equal). */
static void find_base(tn_batcher *b, const tn_seq *s)
{
  const tn_model_shape *shape = tn_rope_shape(b->cfg.rope);
  for (uint32_t c = 0; c < b->cfg.n_classes; c++) b->base[c] = s->n_done;
  for (uint32_t g = 0; g < b->cfg.n_groups; g++) {
    const tn_kv_group *d = &b->cfg.groups->g[g].desc;
    if (d->kind == TN_KV_CACHE && d->keys == TN_KEYS_RAW)
      b->base[shape->layer_class[d->layers[0]]] = s->kv->t[g].next_rope;
  }
}

static void add_angles(tn_batcher *b, const tn_seq *s, uint32_t row, uint32_t ord)
{
  size_t at = row * (tn_rope_dims(b->cfg.rope) / 2);
  int64_t last = b->cfg.renumber - 1;
  for (uint32_t c = 0; c < b->cfg.n_classes; c++) {
    int64_t rope_pos = b->base[c] + ord;
    tn_rope_row(b->cfg.rope, s->rope, c, rope_pos, b->cos[c] + at, b->sin[c] + at);
    if (last < 0) continue;
    tn_rope_row(b->cfg.rope, s->rope, c, rope_pos < last ? rope_pos : last, b->sink_cos[c] + at, b->sink_sin[c] + at);
  }
}

/* One row, ord places behind the committed entries. */
static uint32_t add_row(tn_batcher *b, const tn_seq *s, int32_t token, uint32_t ord, uint32_t slot)
{
  uint32_t row = b->b.n_rows++;
  b->token[row] = token;
  b->seq[row] = (int32_t)b->b.n_seqs;
  b->ord[row] = (int32_t)ord;
  b->slot[row] = (int32_t)slot;
  b->text_pos[row] = s->n_done + ord;
  b->path_off[row] = -1;
  b->signal[row] = -1;
  if (!b->cfg.no_angles) add_angles(b, s, row, ord);
  return row;
}

/* Slots of a node's ancestors in order, where they are not simply 0, 1, 2, ... */
static void add_path(tn_batcher *b, const tn_seq *s, uint32_t row, uint32_t node)
{
  uint32_t depth = tn_node_depth(s, node), at = b->b.n_path;
  int32_t p = s->node_parent[node];
  bool plain = (uint32_t)b->slot[row] == s->run - 1 + depth;
  for (uint32_t o = s->run - 1 + depth; o-- > 0;) {
    b->path[at + o] = o < s->run ? (int32_t)o : (int32_t)s->run + p;
    if (o >= s->run) p = s->node_parent[p];
    plain = plain && b->path[at + o] == (int32_t)o;
  }
  if (plain) return;
  b->path_off[row] = (int32_t)at;
  b->b.n_path += s->run - 1 + depth;
}

/* RAW keys: the angles of entries that are new or were renumbered, and of this step's rows. */
static void rotate_entries(tn_batcher *b, const tn_seq *s)
{
  size_t half = tn_rope_dims(b->cfg.rope) / 2;
  for (uint32_t g = 0; g < b->cfg.n_groups; g++) {
    tn_kv_table *t = &s->kv->t[g];
    if (!t->cos) continue;
    const tn_model_shape *shape = tn_rope_shape(b->cfg.rope);
    uint32_t cls = shape->layer_class[b->cfg.groups->g[g].desc.layers[0]];
    for (int64_t r = t->rotated; r < t->n; r++)
      tn_rope_row(b->cfg.rope, s->rope, cls, t->rope_pos[r], t->cos + (size_t)r * half, t->sin + (size_t)r * half);
    t->rotated = t->n;
    for (uint32_t row = (uint32_t)s->row0; row < b->b.n_rows; row++) {
      size_t at = ((size_t)t->n + (size_t)b->slot[row]) * half;
      tn_rope_row(b->cfg.rope, s->rope, cls, t->next_rope + b->ord[row], t->cos + at, t->sin + at);
    }
  }
}

static void add_signals(tn_batcher *b, const tn_seq *s, tn_signals *const *node_signals)
{
  int32_t total = (int32_t)b->b.n_signals, window = total + 1;
  b->signals[b->b.n_signals++] = &s->signals->total;
  b->signals[b->b.n_signals++] = &s->signals->window;
  for (uint32_t i = 0; i < s->run; i++) {
    int64_t pos = s->n_done + i;
    bool in_window = pos < s->window_end && pos >= s->window_end - (int64_t)b->cfg.window_rows;
    b->signal[s->row0 + (int32_t)i] = in_window ? window : total;
  }
  for (uint32_t i = 0; i < s->n_nodes; i++) {
    b->signal[s->row0 + (int32_t)(s->run + i)] = (int32_t)b->b.n_signals;
    b->signals[b->b.n_signals++] = &node_signals[i]->total;
  }
}

static void want_logits(tn_batcher *b, tn_seq *s)
{
  bool whole = s->n_done + s->run == s->n_tok;
  uint32_t first = whole ? s->run - 1 : s->run;
  if (s->req.score) first = tn_score_first(s);
  s->out0 = (int32_t)b->b.n_out;
  for (uint32_t i = first; i < s->run + s->n_nodes; i++) b->out_row[b->b.n_out++] = s->row0 + (int32_t)i;
  s->n_out = b->b.n_out - (uint32_t)s->out0;
}

void tn_batch_add(tn_batcher *b, tn_seq *s, tn_kv_store *kv, tn_signals *const *node_signals)
{
  find_base(b, s);
  s->row0 = (int32_t)b->b.n_rows;
  for (uint32_t i = 0; i < s->run; i++) add_row(b, s, s->tokens[s->n_done + i], i, i);
  for (uint32_t i = 0; i < s->n_nodes; i++) {
    uint32_t ord = s->run - 1 + tn_node_depth(s, i);
    uint32_t row = add_row(b, s, s->node_token[i], ord, s->run + i);
    add_path(b, s, row, i);
  }
  rotate_entries(b, s);
  if (s->signals) add_signals(b, s, node_signals);
  want_logits(b, s);
  tn_kv_views(kv, s->kv);
  uint32_t at = b->b.n_seqs++;
  b->views[at] = (tn_seq_view){sizeof(tn_seq_view), b->cfg.n_groups, s->id, s->kv->view_ptrs};
  b->view_ptrs[at] = &b->views[at];
}

tn_batch *tn_batch_end(tn_batcher *b) { return &b->b; }
