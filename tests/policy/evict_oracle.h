/* evict_oracle: h2o, snapkv and knorm by brute force, as their papers say it, on the attention and keys of a forward pass in
 * double. Sets are per (layer, KV head); an entry is picked at a time; nothing is scored, pinned, paged or compacted. */
#ifndef TN_TESTS_EVICT_ORACLE_H
#define TN_TESTS_EVICT_ORACLE_H

#include "support/naive.h"

enum { ORACLE_T = 256, ORACLE_CELLS = 16 }; /* most tokens; most layers x KV heads */
enum { ORACLE_H2O, ORACLE_SNAPKV, ORACLE_KNORM };
enum { ORACLE_HEAD, ORACLE_LAYER, ORACLE_ALL };

typedef struct oracle_rule { /* all in tokens */
  int policy, unit;
  int64_t budget, demoted, recent, sinks, every, window, kernel, skip_layers;
  bool always;
} oracle_rule;

typedef struct oracle_cell { /* one layer, one KV head */
  bool alive[ORACLE_T], narrow[ORACLE_T];
  double attn[ORACLE_T], window[ORACLE_T], norm[ORACLE_T];
} oracle_cell;

typedef struct oracle {
  oracle_rule rule;
  naive *x;
  int64_t n_prompt;
  uint64_t n_dropped, n_narrow, decisions;
  double tightest; /* smallest relative distance between what was picked and what was not */
  oracle_cell cell[ORACLE_CELLS];
} oracle;

oracle *oracle_open(const tn_model *m, const oracle_rule *rule, int64_t n_prompt);
void oracle_close(oracle *o);

/* One more token: forward pass, signals, and what the policy does once it is committed. */
void oracle_push(oracle *o, int32_t token);

/* Text positions of a cell's entries that a query at `next` may see, ascending; narrow NULL: all, else those that are
 * demoted or not. Returns how many. */
int64_t oracle_positions(const oracle *o, uint32_t cell, int64_t next, const bool *narrow, int64_t *out);

/* Do two KV heads of one layer hold different entries? */
bool oracle_heads_differ(const oracle *o);

#endif
