/* batch: the flat list of rows of one step, in the form that backends take (tn_batch).
 *
 * Built anew each step in arrays that are allocated once. Rows of a sequence are adjacent: its text tokens, then its
 * drafted nodes. Thread rule: engine thread only. */
#ifndef TN_CORE_ENGINE_BATCH_H
#define TN_CORE_ENGINE_BATCH_H

#include "sequence.h"

#define TN_MAX_DEPTH 63u /* of a drafted tree */

typedef struct tn_batcher tn_batcher;

typedef struct tn_batch_cfg {
  uint32_t max_rows, max_seqs, max_out, n_groups;
  int64_t renumber; /* 0, or the eviction policy's cache size: sink queries */
  const tn_groups *groups;
  const tn_rope *rope;
  bool no_angles;                  /* nobody computes with the rows: how they are rotated is left out */
  uint32_t n_classes, signals;     /* signals 1: rows carry signal indices */
  uint32_t window_rows, reserved0; /* last rows of a prompt that feed the window signal */
} tn_batch_cfg;

tn_status tn_batcher_new(const tn_batch_cfg *cfg, tn_batcher **out, tn_err *err);
void tn_batcher_free(tn_batcher *b);

void tn_batch_begin(tn_batcher *b);

/* Adds the rows that s->run and s->n_nodes say; reserves nothing. node_signals [n_nodes] receive what drafted rows
 * signal (NULL without signals). Sets s->row0, out0, n_out. */
void tn_batch_add(tn_batcher *b, tn_seq *s, tn_kv_store *kv, tn_signals *const *node_signals);

/* The finished batch, valid until the next begin. */
tn_batch *tn_batch_end(tn_batcher *b);

/* Depth of node i of a tree (children of the pending token have depth 1). */
uint32_t tn_node_depth(const tn_seq *s, uint32_t node);

#endif
