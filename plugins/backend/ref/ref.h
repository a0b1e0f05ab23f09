/* ref: private header of the reference backend: its objects and who offers what.
 *
 * An instance owns everything it allocates and gives it back through the calls of tn_backend_v1. Tensors are host memory.
 * Nothing is fused and nothing is asynchronous: every call has done its work when it returns.
 *
 *   ref.c      life, descriptor, entry          check.c   shapes and indices of a program, once
 *   buffers.c  buffers                          batch.c   indices of a batch, at every run
 *   weights.c  weights and their rows           run.c     records one after the other; single ops
 *   kv.c       opening a cache  pages.c  its pages           rows.c    records that treat each row on its own
 *   program.c  prepared programs                linear.c  LINEAR, SEGSUM
 *   attend.c   ATTEND   sees.c  who sees whom   look.c    what rows see of 64 ranks   write.c   KV_WRITE
 *   order_attend.c, order_linear.c   ATTEND and LINEAR in f32, in the order of NUMERICS.md
 *   mix.c      STATE_MIX, folding
 */
#ifndef TN_BACKEND_REF_H
#define TN_BACKEND_REF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plugin_api.h"
#include "ref/layout.h"
#include "ref/order_linear.h"

/* ---------------------------------------------------------------- instance (ref.c) */

enum { REF_MAX_SEGMENTS = 256 };
enum { REF_ACC_AUTO, REF_ACC_DOUBLE, REF_ACC_F32 };          /* values of the option accumulate */
enum { REF_N_RUNS, REF_N_RECORDS, REF_N_ROWS, REF_N_MOVED }; /* counters */

struct tn_inst {
  const tn_host *host;
  const tn_svc_pool *pool; /* NULL: no threads */
  uint32_t n_workers;
  uint32_t accumulate; /* REF_ACC_* */
  int64_t max_k;       /* longest weight row that row_f32 and row_f64 hold */
  float *row_f32;      /* [n_workers][max_k] */
  double *row_f64;     /* [n_workers][TNK_REF_OUTPUTS][max_k] */
};

/* n * size zeroed bytes from the host; NULL on overflow or when there are none. Free with tn_ref_free. */
void *tn_ref_zalloc(tn_inst *in, uint64_t n, uint64_t size);
void *tn_ref_copy(tn_inst *in, const void *src, uint64_t n, uint64_t size); /* the same, filled from src */
void tn_ref_free(tn_inst *in, void *p);

tn_status tn_ref_fail(tn_err *err, tn_status code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Makes sure that row scratch holds rows of k columns. TN_E_NOMEM. */
tn_status tn_ref_scratch(tn_inst *in, int64_t k);

/* fn(arg, worker, n) on every worker, or on the caller alone when work (operations, roughly) is small. */
void tn_ref_gang(tn_inst *in, void (*fn)(void *, uint32_t, uint32_t), void *arg, int64_t work);

/* Worker's share [*first, *last) of n items. */
void tn_ref_share(int64_t n, uint32_t worker, uint32_t n_workers, int64_t *first, int64_t *last);

/* ---------------------------------------------------------------- buffers (buffers.c) */

struct tn_buffer {
  uint8_t *data;
  uint64_t bytes;
  bool owned;              /* data is the backend's: written by upload, freed with the buffer */
  struct ref_codes *codes; /* a weight of codes; then data is empty */
};

tn_status tn_ref_buffer_new(tn_inst *in, uint64_t bytes, tn_buffer **out, tn_err *err);
void tn_ref_buffer_free(tn_inst *in, tn_buffer *b);
tn_status tn_ref_upload(tn_inst *in, tn_buffer *dst, uint64_t offset, const void *src, uint64_t bytes);
tn_status tn_ref_download(tn_inst *in, const tn_buffer *src, uint64_t offset, void *dst, uint64_t bytes);

/* ---------------------------------------------------------------- weights (weights.c) */

typedef struct ref_codes { /* a quantizer's output, kept as it came, scales rounded to the layout's type */
  tnk_layout layout;
  tn_layout api; /* what tn_tensor.layout points to */
  int64_t n, k, groups, supers;
  uint8_t *codes, *sub_scale, *sub_offset;
  float *scale, *offset, *d, *dmin, *table;
} ref_codes;

tn_status tn_ref_weight_load(tn_inst *in, const tn_weight_src *src, tn_tensor *out, tn_err *err);
void tn_ref_weight_free(tn_inst *in, tn_tensor *w);
tn_status tn_ref_weight_read(tn_inst *in, const tn_tensor *w, int64_t row0, int64_t n_rows, float *dst);

/* True when the rows of w can be decoded. */
bool tn_ref_weight_ok(const tn_tensor *w);
/* Row `row` of w [ne[1]][ne[0]] to f32. [worker] */
void tn_ref_weight_row(const tn_tensor *w, int64_t row, float *dst);
/* The numbers of a vector weight (norm, bias) of n elements, or NULL when w is not one. */
const float *tn_ref_weight_vector(const tn_tensor *w, int64_t n);

/* Layout of the API as the kernels' own. TN_E_UNSUPPORTED or TN_E_ARG, err names `what`. Borrows lay->table. */
tn_status tn_ref_layout(const tn_layout *lay, const char *what, tnk_layout *out, tn_err *err);

/* ---------------------------------------------------------------- cache (kv.c) */

typedef struct ref_group {
  uint32_t kind, n_layers, n_heads, d_k, d_v, keys, n_layouts;
  int32_t *layers, *heads;   /* [n_layers], [n_heads] */
  uint32_t *pools;           /* [n_layouts] */
  tnk_layout *k_lay, *v_lay; /* [n_layouts] */
  float **tables;            /* [2 * n_layouts] copies of lookup tables or NULL */
  size_t *k_bytes, *v_bytes; /* [n_layouts] bytes of an entry */
  int64_t n_features, fold;  /* STATE */
  double eps;
  float *features; /* [n_features][d_k] or NULL: ELU1 */
  uint32_t state_pool;
} ref_group;

typedef struct ref_pool {
  uint8_t *data;       /* [n_pages][page_bytes] */
  uint64_t page_bytes; /* of the largest layout or state that comes from this pool */
  uint32_t n_pages;
} ref_pool;

struct tn_kv {
  uint32_t n_pools, n_groups, page_tokens;
  ref_pool *pools;   /* [n_pools] */
  ref_group *groups; /* [n_groups] */
  float *row;        /* [widest key or value] for moves */
  uint8_t *fold;     /* scratch of folding, for the largest state; NULL without states */
};

tn_status tn_ref_kv_open(tn_inst *in, const tn_kv_plan *plan, tn_kv **out, tn_err *err);
void tn_ref_kv_close(tn_inst *in, tn_kv *kv);
uint64_t tn_ref_kv_page_bytes(tn_inst *in, const tn_kv *kv, uint32_t pool);
tn_status tn_ref_kv_move(tn_inst *in, tn_kv *kv, const tn_kv_moves *m);
tn_status tn_ref_kv_page_read(tn_inst *in, const tn_kv *kv, uint32_t pool, int32_t page, void *dst);
tn_status tn_ref_kv_page_write(tn_inst *in, tn_kv *kv, uint32_t pool, int32_t page, const void *src);

/* Where layer l, head h (indices into the group) of entry `slot` of a page is; the value lies behind the key. */
uint8_t *tn_ref_kv_entry(const tn_kv *kv, const ref_group *g, uint32_t layout, int32_t page, int64_t slot, uint32_t l,
                         uint32_t h);
/* State [n_features][d_v] and sums [n_features] of layer l, head h. */
double *tn_ref_kv_state(const tn_kv *kv, const ref_group *g, int32_t state, uint32_t l, uint32_t h);

/* Decodes entry `entry` of a view: k [d_k] or NULL, v [d_v] or NULL. */
void tn_ref_kv_load(const tn_kv *kv, const ref_group *g, const tn_kv_view *view, int64_t entry, uint32_t l, uint32_t h,
                    float *k, float *v);

/* ---------------------------------------------------------------- program (program.c, check.c) */

typedef struct ref_head {      /* where the cache entries of one KV head of a record live */
  uint32_t group, layer, head; /* layer, head: indices into the group */
} ref_head;

typedef struct ref_op {
  tn_op op;        /* the host's record with a name of its own */
  ref_head *heads; /* [attend.n_kv_heads] of KV_WRITE, ATTEND, STATE_MIX; else NULL */
} ref_op;

struct tn_prepared {
  tn_kv *kv; /* borrowed */
  uint32_t n_ops, n_acts, n_weights, n_masks, n_tables, n_taps;
  uint32_t flags, max_rows, max_out;
  uint32_t head0, kv_head0; /* lowest in any record: the first of this rank, column 0 of the activations */
  uint32_t n_kv_heads;      /* of the model: how tile sets are counted */
  ref_op *ops;
  tn_tensor *acts;    /* [n_acts], each with a buffer of its own */
  uint32_t *act_rows; /* [n_acts] TN_ROWS_* */
  tn_buffer *buffers; /* [n_acts] */
  tn_tensor *weights; /* [n_weights] borrowed buffers */
  tn_mask *masks;
  uint32_t *table_dims;
  tn_tensor *taps;         /* [n_taps] */
  tn_prepare hooks;        /* ctx, observe, collective */
  bool f32;                /* sums in f32, in the order of NUMERICS.md; else in double */
  float *int8;             /* [max_rows][longest input of a LINEAR] or NULL */
  int64_t max_blocks;      /* of 32 columns, of the longest input of a LINEAR */
  tnk_order_cell *cells;   /* [max_rows][max_blocks] the same in 8 bits; f32 only */
  tnk_order_block *blocks; /* [n_workers][max_blocks] a weight row; f32 only */
  uint8_t *work;           /* [n_workers][work_bytes] scratch of ATTEND and STATE_MIX */
  uint64_t work_bytes;     /* a multiple of 64 */
};

tn_status tn_ref_prepare(tn_inst *in, const tn_program *pr, const tn_prepare *how, tn_kv *kv, tn_prepared **out,
                         tn_err *err);
void tn_ref_prepared_free(tn_inst *in, tn_prepared *p);
tn_status tn_ref_act(tn_inst *in, tn_prepared *p, uint32_t act, tn_tensor *out);

/* ---------------------------------------------------------------- run (run.c, batch.c) */

/* A matrix of f32 rows: row r at p + r * stride. p NULL: the operand is not there. */
typedef struct ref_rows {
  float *p;
  int64_t stride, cols, n;
} ref_rows;

typedef struct ref_call { /* one record about to run, on resolved operands */
  tn_inst *in;
  const tn_op *op;
  ref_rows x, x2, y, y2;   /* in0, in1, out0, out1 */
  const tn_tensor *w, *w2; /* NULL: none */
  int64_t n;               /* rows */
  const int32_t *token;    /* EMBED: [n] */
  tn_prepared *p;          /* NULL for a single op */
  const tn_batch *b;       /* NULL for a single op */
  const ref_head *heads;
  bool f32; /* sums in f32, in the order of NUMERICS.md */
} ref_call;

/* Operand counts and shapes of one record; err names the record. check.c. [cold] */
tn_status tn_ref_check_operands(const tn_op *op, tn_err *err);
tn_status tn_ref_check_shapes(const ref_call *c, tn_err *err);
/* KV_WRITE, ATTEND, STATE_MIX: where its KV heads live, into heads. */
tn_status tn_ref_check_heads(const ref_call *c, ref_head *heads, tn_err *err);

/* Operands of record i of a program, rows not yet known. */
ref_call tn_ref_call_of(tn_inst *in, tn_prepared *p, uint32_t i);

tn_status tn_ref_run(tn_inst *in, tn_prepared *p, uint32_t first, uint32_t last, const tn_batch *b);
tn_status tn_ref_op(tn_inst *in, const tn_op *op, const tn_tensor *const *ins, const tn_tensor *const *outs,
                    const tn_tensor *const *weights, int64_t n_rows);

/* TN_E_ARG when an index of the batch is out of range: of its rows, before a run; of the pages that the record's KV heads
 * read and write, before KV_WRITE, ATTEND and STATE_MIX. [hot] */
tn_status tn_ref_batch_check(const tn_prepared *p, const tn_batch *b);
tn_status tn_ref_view_check(const ref_call *c);
/* What a view has committed can be read. */
bool tn_ref_view_ok(const tn_kv *kv, const ref_group *g, const tn_kv_view *v);

/* End of the run of rows of one sequence that begins at row first. */
int64_t tn_ref_same_seq(const tn_batch *b, int64_t first);
/* Slot of the entry that row `row` sees at order o <= ord: its own, or an ancestor's. */
int64_t tn_ref_slot_at(const tn_batch *b, int64_t row, int64_t o);

/* Records; each returns TN_OK or what the batch did wrong. */
tn_status tn_ref_do_embed(ref_call *c);
tn_status tn_ref_do_norm(ref_call *c);
tn_status tn_ref_do_add(ref_call *c);
tn_status tn_ref_do_glu(ref_call *c);
tn_status tn_ref_do_rope(ref_call *c);
tn_status tn_ref_do_pick(ref_call *c);
tn_status tn_ref_do_scale(ref_call *c);
tn_status tn_ref_do_softcap(ref_call *c);
tn_status tn_ref_do_merge(ref_call *c);
tn_status tn_ref_do_tap(ref_call *c);
tn_status tn_ref_do_observe(ref_call *c);
tn_status tn_ref_do_collective(ref_call *c);
tn_status tn_ref_do_linear(ref_call *c);
tn_status tn_ref_order_linear(ref_call *c);
tn_status tn_ref_do_segsum(ref_call *c);
tn_status tn_ref_do_kv_write(ref_call *c);
tn_status tn_ref_do_attend(ref_call *c);
tn_status tn_ref_do_state_mix(ref_call *c);

/* ---------------------------------------------------------------- attention (sees.c, attend.c, mix.c) */

/* What decides which text positions the query of one row sees, for one KV head. */
typedef struct ref_sight {
  int64_t pos; /* the query's text position */
  const tn_mask *masks;
  uint32_t n_masks;
  const tn_tile_list *tiles; /* NULL: no tile lists */
} ref_sight;

/* Sight of row `row` for the record's KV head kv_head. TN_E_ARG: the batch lacks the row's tile list. */
tn_status tn_ref_sight_of(const ref_call *c, int64_t row, uint32_t kv_head, ref_sight *out);
/* The query sees the entry at text position j. */
bool tn_ref_sees(const ref_sight *s, int64_t j);

/* Text position of committed entry `entry`; -1: a hole, or its page is freed. */
int64_t tn_ref_kv_pos(const tn_kv *kv, const tn_kv_view *view, int64_t entry);

enum { REF_STEP = 64, REF_TASK_ROWS = 16 };

/* Rows [row0, row1) of one sequence with the query heads of one KV head, at a step of 64 ranks. */
typedef struct ref_look {
  const ref_call *c;
  const ref_group *g;
  const ref_head *at;
  const tn_kv_view *view;
  uint32_t kv_head, rep; /* of the record; query heads per KV head */
  int64_t row0, row1;
  int64_t step;  /* ranks [64 step, 64 step + 64) are at hand */
  uint64_t have; /* bit b: k and v hold rank 64 step + b; 0 at a new step */
  bool with_v;
  float *k, *v, *own_k, *own_v; /* [64][d_k], [64][d_v]: common to all rows; of one row on a path */
  ref_sight *sight;             /* [REF_TASK_ROWS] */
} ref_look;

typedef struct ref_seen { /* what one row sees of the step, in rank order */
  int n;
  int bit[REF_STEP]; /* rank - 64 step */
  const float *k[REF_STEP], *v[REF_STEP];
  bool sink[REF_STEP]; /* takes the sink query */
  int64_t entry[REF_STEP];
} ref_seen;

/* Bytes of a look's scratch, which begins at 8-byte alignment; and its division. */
uint64_t tn_ref_look_bytes(const ref_group *g);
void tn_ref_look_lay_out(ref_look *t, uint8_t *work);
/* Sights of all rows. TN_E_ARG as tn_ref_sight_of. */
tn_status tn_ref_look_sights(ref_look *t);
/* Steps up to the last rank that any row finds. */
int64_t tn_ref_look_steps(const ref_look *t);
/* What a row sees of the step; valid until the next call or step. */
void tn_ref_look(ref_look *t, int64_t row, ref_seen *s);
/* Accumulators that the row's attention is added to, by entry, or NULL. */
int64_t *tn_ref_look_signal(const ref_look *t, int64_t row);

/* A task in f32; work: scratch of tn_ref_order_attend_bytes and a look's. */
tn_status tn_ref_order_attend(const ref_look *look, uint8_t *work);
uint64_t tn_ref_order_attend_bytes(const ref_group *g, uint64_t rep);

/* Bytes of scratch that one worker needs for a record on group g. */
uint64_t tn_ref_attend_bytes(const ref_group *g, const tn_op *op, bool f32);
uint64_t tn_ref_mix_bytes(const ref_group *g, uint32_t heads_per_kv);

tn_status tn_ref_state_reset(tn_inst *in, tn_kv *kv, uint32_t group, int32_t state);
tn_status tn_ref_state_fold(tn_inst *in, tn_kv *kv, uint32_t group, const tn_kv_view *view);

#endif
