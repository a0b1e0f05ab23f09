/* evict_sim: score-based eviction by brute force, on attention that the naive forward pass computes: what eviction/probe
 * must decide, entry by entry, and what the model then says. Sets are per (layer, KV head); nothing is paged, compacted
 * or renumbered except in name. */
#ifndef TN_TESTS_EVICT_SIM_H
#define TN_TESTS_EVICT_SIM_H

#include "support/naive.h"

enum { SIM_MAX_T = 512, SIM_MAX_CELLS = 16 }; /* cells: layers x KV heads */
enum { SIM_H2O, SIM_SNAP, SIM_KNORM, SIM_ALL };
enum { SIM_GRAN_ALL, SIM_GRAN_LAYER, SIM_GRAN_HEAD };
enum { SIM_SCORE, SIM_DROP, SIM_DEMOTE_EVEN, SIM_DEMOTE_ALL, SIM_DEMOTE_NONE };

typedef struct evict_rule { /* the options of eviction/probe */
  int policy, gran, verdict;
  int64_t budget, every, recent, sinks, window;
  bool rank_rope, stateful;
} evict_rule;

typedef struct evict_cell { /* one layer, one KV head */
  bool alive[SIM_MAX_T], demoted[SIM_MAX_T];
  int64_t rope[SIM_MAX_T], next_rope;
  double attn[SIM_MAX_T], window[SIM_MAX_T], norm[SIM_MAX_T]; /* signals of this cell alone; units of tn_signal */
} evict_cell;

typedef struct evict_sim {
  evict_rule rule;
  naive *x;
  int64_t n_prompt, decisions;
  uint64_t n_dropped;
  double tightest; /* smallest relative distance between a score that stayed and one that went, ties left
                      out: those go by position */
  evict_cell cell[SIM_MAX_CELLS];
  /* What a demoted entry reads as; NULL: unchanged. */
  void (*demote)(uint32_t d_head, float *x);
} evict_sim;

evict_sim *evict_sim_open(const tn_model *m, const evict_rule *rule, int64_t n_prompt);
void evict_sim_close(evict_sim *s);

/* One more token: forward pass, signals, and what the policy does when it is committed. */
void evict_sim_push(evict_sim *s, int32_t token);

/* Text positions that a cell still sees from position `next` on, ascending; returns how many. */
int64_t evict_sim_positions(const evict_sim *s, uint32_t cell, int64_t next, int64_t *out);

/* Sum of a cell's signals over the cells of its group, for entry j. */
double evict_sim_attn(const evict_sim *s, uint32_t cell, int64_t j);

#endif
