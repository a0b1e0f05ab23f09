/* engine_int: the engine's own state, shared by engine*.c, step*.c, draft.c, evict.c, tiles.c. See engine.h. */
#ifndef TN_CORE_ENGINE_ENGINE_INT_H
#define TN_CORE_ENGINE_ENGINE_INT_H

#include "batch.h"
#include "engine.h"

#define TN_MAX_SEQS 1024u /* that may hold KV at once */

typedef struct tn_attn_part {
  tn_instance in;
  uint32_t layer0, layer1;
} tn_attn_part;

typedef struct tn_evictor {
  const tn_eviction_v1 *v;
  tn_evict_spec spec;
  bool scores;               /* spec.kind is SCORE */
  tn_signals **node_signals; /* [max_seqs * max_nodes], made on first use */
  float **score;             /* [n_groups][cap] */
  uint8_t **verdict;
  tn_evict_unit *units; /* [n_groups] */
  const tn_evict_unit **unit_ptrs;
  int64_t *order, *map, *tmp; /* [cap] */
  uint8_t *layout;
} tn_evictor;

typedef struct tn_drafter {
  const tn_draft_v1 *v;
  tn_draft_spec spec;
  uint32_t max_nodes;
  tn_draft_req *reqs; /* [max_seqs] and so on */
  const tn_draft_req **req_ptrs;
  tn_draft_tree *trees;
  tn_draft_tree **tree_ptrs;
  tn_draft_outcome *outs;
  const tn_draft_outcome **out_ptrs;
  tn_draft_rows *rows;
  tn_verify_out *verdicts; /* [max_seqs] */
} tn_drafter;

typedef struct tn_tiler {   /* tile lists of irregular attention patterns */
  const tn_tile_set **sets; /* [n_tile_sets * max_seqs * G] */
  tn_tile_set *set_store;
  const tn_tile_list **list_ptrs;
  tn_tile_list **lists; /* [n_made] reused from step to step */
  uint32_t n_made, used, n_ptrs, cap_ptrs, cap_tiles;
} tn_tiler;

struct tn_engine {
  tn_engine_cfg cfg;
  const tn_model *model;
  uint32_t n_vocab, n_groups, max_out, cap_entries;
  tn_services services;
  tn_svc_model svc_model;
  tn_instance memory, eviction, kv_quantizer, demote, draft, position, scheduler, parallel;
  tn_attn_part *attention; /* [n_attention] */
  uint32_t n_attention;
  tn_attn_spec *attn; /* [L * G] */
  const tn_attn_spec **attn_ptrs;
  tn_groups groups;
  tn_build build;
  int32_t *taps; /* [build.n_taps] */
  tn_exec *exec;
  tn_kv_store *kv;
  tn_rope *rope;
  tn_batcher *batcher;
  tn_verifier *verifier;
  tn_evictor ev;
  tn_drafter dr;
  tn_tiler tiler;
  int32_t *eog;
  float *logits; /* [max_out][V] */
  /* sequences in order of arrival, and the arrays of the scheduler's view over them */
  tn_seq *first;
  uint64_t next_id;
  uint32_t n_seqs, cap_seqs, n_resident;
  tn_seq **by_index; /* [cap_seqs] */
  tn_sched_view view;
  tn_sched_plan plan;
  void *view_store;
  tn_seq **running; /* [max_seqs] sequences of this step, in batch order */
  uint32_t n_running;
  uint64_t step, rows, n_preempted, n_swapped_out, n_submitted, n_finished;
  uint64_t n_prompt_tokens, n_new_tokens, n_drafted, n_accepted;
  uint64_t options; /* counts changes of run-time options: entries made before are not found behind them */
  bool prefix_cache;
};

static inline uint64_t tn_engine_now(const tn_engine *e)
{
  return e->cfg.clock ? e->cfg.clock(e->cfg.clock_ctx) : tn_now_ns();
}

/* engine_plugins.c: the plugins' instances and what they describe. */
tn_status tn_engine_plugins_open(tn_engine *e, tn_err *err);
void tn_engine_plugins_close(tn_engine *e);
/* Every instance of the engine, ranks' included, with its INI key; false past the end. */
bool tn_engine_instance(const tn_engine *e, uint32_t i, const char **key, const tn_instance **out);

/* engine_seq.c: life of sequences inside the engine. */
/* TN_OK: it has KV; TN_E_FULL: later; else it can never run. *err has a text where a plugin's call failed. admit_empty: no
 * entries of others are looked for. */
tn_status tn_engine_admit(tn_engine *e, tn_seq *s, tn_err *err);
int64_t tn_engine_found(const tn_engine *e, const tn_seq *s); /* what a waiting sequence would find now, in tokens */
tn_status tn_engine_admit_empty(tn_engine *e, tn_seq *s, tn_err *err);
void tn_engine_preempt(tn_engine *e, tn_seq *s, uint32_t how);
void tn_engine_finish(tn_engine *e, tn_seq *s, uint32_t why, const char *msg); /* s is gone afterwards */
void tn_engine_discard(tn_engine *e, tn_seq *s);                               /* the same without an event */

/* The request of a sequence that starts behind `text`: prompt = text + what req->prompt says. */
tn_status tn_engine_continue(tn_engine *e, const int32_t *text, int64_t n_text, const tn_request *req, tn_seq **out,
                             tn_err *err);

/* services.c, second_model.c */
void tn_engine_services(tn_engine *e);
tn_status tn_second_open(tn_hctx *ctx, const char *path, void **model, tn_err *err);
void tn_second_close(tn_hctx *ctx, void *model);
tn_status tn_second_eval(tn_hctx *ctx, void *model, uint64_t seq, int64_t n_keep, const int32_t *tokens, int64_t n,
                         const float **logits);

/* schedule.c: the scheduler's view and plan, admission, reservation. Fills e->running. */
tn_status tn_engine_schedule(tn_engine *e, tn_err *err);
void tn_engine_reserve(tn_engine *e);

/* draft.c */
tn_status tn_drafter_open(tn_engine *e, tn_err *err);
void tn_drafter_close(tn_engine *e);
uint32_t tn_draft_limit(const tn_engine *e, const tn_seq *s); /* nodes that may be drafted for s now */
tn_status tn_draft_propose(tn_engine *e, tn_err *err);
tn_status tn_draft_report(tn_engine *e, tn_err *err); /* outcomes and tap rows of the step */

/* evict.c */
tn_status tn_evictor_open(tn_engine *e, tn_err *err);
void tn_evictor_close(tn_engine *e);
tn_status tn_evict_begin(tn_engine *e, tn_seq *s, tn_err *err); /* first position at which to act */
/* After begin, for a sequence that goes on with another one's entries and signals: a fork or a restored session. */
void tn_evict_continue(tn_engine *e, tn_seq *s, int64_t window_end, int64_t next_evict);
tn_signals *const *tn_evict_node_signals(tn_engine *e, uint32_t running_index, const tn_seq *s);
void tn_evict_accept(tn_engine *e, uint32_t running_index, tn_seq *s, uint32_t n_path, const int32_t *path);
/* After a commit, and when a sequence is back that could not act before: what next_evict asks for. TN_E_FULL, TN_E_NEVER:
 * no pages to do it with, nothing has changed and *err is empty. */
tn_status tn_evict_act(tn_engine *e, tn_seq *s, tn_err *err);

/* tiles.c */
tn_status tn_tiler_open(tn_engine *e, tn_err *err);
void tn_tiler_close(tn_engine *e);
/* Lists of the n sequences that make up the batch. */
tn_status tn_tiler_fill(tn_engine *e, tn_seq *const *seqs, uint32_t n, tn_batch *b, tn_err *err);

/* collect.c: from logits to committed tokens and events. */
tn_status tn_engine_collect(tn_engine *e, tn_err *err);

#endif
