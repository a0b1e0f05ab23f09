/* cpu: private header of the cpu backend: its objects and who offers what.
 *
 * Tensors are host memory. run() is one gang of the host's pool for all records up to the next hook into the host, with a
 * barrier where a record needs what others wrote; every call has done its work when it returns.
 *
 *   cpu.c       life, descriptor, entry        check.c    shapes and indices of a program, once
 *   buffers.c   buffers, memory for weights    batch.c    indices of a batch, at every run
 *   weights.c   weights to panels, codes.c     run.c      records in a gang; single ops
 *   kv.c        opening a cache                rows.c     records that treat each row on its own
 *   pages.c     its pages and entries          linear.c   LINEAR, SEGSUM
 *   coded.c     entries of 8-bit codes
 *   program.c   prepared programs              write.c    KV_WRITE
 *   attend.c    ATTEND: tasks and merging      tile.c     a tile's keys, values and visible bits
 *   fuse.c      records to units               unit.c     LINEARs with what comes before and after them
 *   peak.c      extensions for measurements
 */
#ifndef TN_BACKEND_CPU_H
#define TN_BACKEND_CPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cpu/attend.h"
#include "cpu/linear.h"
#include "cpu/vec.h"
#include "plugin_api.h"
#include "ref/layout.h"

/* ---------------------------------------------------------------- instance (cpu.c) */

enum { CPU_N_RUNS, CPU_N_RECORDS, CPU_N_ROWS, CPU_N_MOVED, CPU_N_FUSED }; /* counters */
enum {
  CPU_MAX_SEGMENTS = 256,
  CPU_LINE = 64,
  CPU_OWN_ROWS = 4,
  CPU_PART_ROWS = 256, /* rows x segments of a tile's parts */
  CPU_PARTS = CPU_PART_ROWS * TNK_PANEL * 4,
  CPU_WORK = (TNK_WORK + 63) / 64 * 64 + CPU_PARTS
};

struct tn_inst {
  const tn_host *host;
  const tn_svc_pool *pool;   /* NULL: no threads */
  const tn_svc_cache *cache; /* NULL: panels are not kept */
  uint32_t n_workers;
  int isa;   /* TNK_ISA_* */
  bool fuse; /* records to units */
  const tnk_linear_kernels *linear;
  const tnk_vec *vec;
  const tnk_attend *attend;
  struct cpu_slab *slabs; /* memory of weights, newest first */
  uint8_t *work;          /* [n_workers][CPU_WORK] scratch of matmuls */
  char device[64];
};

/* n * size zeroed bytes, 64-aligned, from the host; NULL on overflow or when there are none. Free with tn_cpu_free. */
void *tn_cpu_zalloc(tn_inst *in, uint64_t n, uint64_t size);
void *tn_cpu_copy(tn_inst *in, const void *src, uint64_t n, uint64_t size); /* the same, filled from src */
void tn_cpu_free(tn_inst *in, void *p);
/* Memory that is not zeroed, in huge pages where the system gives them. */
void *tn_cpu_big(tn_inst *in, uint64_t bytes);

tn_status tn_cpu_fail(tn_err *err, tn_status code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* fn(arg, worker, n) on every worker. */
void tn_cpu_gang(tn_inst *in, void (*fn)(void *, uint32_t, uint32_t), void *arg);
/* Inside a gang: waits for all workers. */
void tn_cpu_barrier(tn_inst *in);

/* Worker's share [*first, *last) of n items. */
void tn_cpu_share(int64_t n, uint32_t worker, uint32_t n_workers, int64_t *first, int64_t *last);

/* Extensions: "tenon.peak/2" (peak.c). */
const void *tn_cpu_ext(tn_inst *in, const char *id);

/* ---------------------------------------------------------------- buffers (buffers.c) */

struct tn_buffer {
  uint8_t *data; /* NULL: a weight in panels */
  uint64_t bytes;
  struct cpu_slab *slab; /* where the panels are; NULL: in a file, mapped */
  tnk_panels panels;
  tn_layout layout; /* of a quantizer's codes */
};

tn_status tn_cpu_buffer_new(tn_inst *in, uint64_t bytes, tn_buffer **out, tn_err *err);
void tn_cpu_buffer_free(tn_inst *in, tn_buffer *b);
tn_status tn_cpu_upload(tn_inst *in, tn_buffer *dst, uint64_t offset, const void *src, uint64_t bytes);
tn_status tn_cpu_download(tn_inst *in, const tn_buffer *src, uint64_t offset, void *dst, uint64_t bytes);

/* bytes for panels, 64-aligned, carved from slabs of huge pages. A slab goes when the last of its panels is given back. */
void *tn_cpu_slab_take(tn_inst *in, uint64_t bytes, struct cpu_slab **slab);
void tn_cpu_slab_give(tn_inst *in, struct cpu_slab *slab);

/* ---------------------------------------------------------------- weights (weights.c) */

tn_status tn_cpu_weight_load(tn_inst *in, const tn_weight_src *src, tn_tensor *out, tn_err *err);
void tn_cpu_weight_free(tn_inst *in, tn_tensor *w);
tn_status tn_cpu_weight_read(tn_inst *in, const tn_tensor *w, int64_t row0, int64_t n_rows, float *dst);

/* w as panels; plain f32 tensors [ne[1]][ne[0]] count as TNK_MATRIX. False: it is neither. */
bool tn_cpu_weight_panels(const tn_tensor *w, tnk_panels *out);
/* The numbers of a vector weight (norm, bias) of n elements, or NULL when w is not one. */
const float *tn_cpu_weight_vector(const tn_tensor *w, int64_t n);

/* weights.c: panels in p's format (its sizes are filled) for src, kept by an earlier process or to be filled: *kept.
 * TN_E_STATE: they were to be kept ones (TN_WF_KEPT), and are not there. */
tn_status tn_cpu_panels_new(tn_inst *in, const tn_weight_src *src, tnk_panels *p, tn_tensor *out, bool *kept,
                            tn_err *err);
/* Filled panels, for the next process. */
void tn_cpu_panels_keep(tn_inst *in, const tn_weight_src *src, const tnk_panels *p);
/* codes.c: a quantizer's codes to panels. */
tn_status tn_cpu_codes_load(tn_inst *in, const tn_weight_src *src, tn_tensor *out, tn_err *err);

/* Layout of the API as the kernels' own. TN_E_UNSUPPORTED or TN_E_ARG, err names `what`. Borrows lay->table. */
tn_status tn_cpu_layout(const tn_layout *lay, const char *what, tnk_layout *out, tn_err *err);

/* ---------------------------------------------------------------- cache (kv.c, pages.c) */

typedef struct cpu_form { /* how a layout stores a group's entries in a page: for each layer and head ... */
  tnk_layout k, v;
  bool halves;             /* f16 keys [page_tokens / 16][d_k][16], then f16 values [page_tokens][dv]; ... */
  bool coded;              /* ... or 8-bit codes and their scales, as coded.c lays them out; else ... */
  size_t k_bytes, v_bytes; /* ... entries [page_tokens], a key and a value each */
  size_t unit_bytes;       /* of one layer and head */
} cpu_form;

typedef struct cpu_group {
  uint32_t n_layers, n_heads, d_k, d_v, n_layouts;
  int64_t dv;              /* d_v padded to 16 */
  int32_t *layers, *heads; /* [n_layers], [n_heads] */
  uint32_t *pools;         /* [n_layouts] */
  cpu_form *forms;         /* [n_layouts] */
  float **tables;          /* [2 * n_layouts] copies of lookup tables or NULL */
} cpu_group;

typedef struct cpu_pool {
  uint8_t *data;       /* [n_pages][page_bytes] */
  uint64_t page_bytes; /* of the largest layout that comes from this pool */
  uint32_t n_pages;
} cpu_pool;

struct tn_kv {
  uint32_t n_pools, n_groups, page_tokens;
  cpu_pool *pools;   /* [n_pools] */
  cpu_group *groups; /* [n_groups] */
  float *row;        /* [widest key + widest value] for moves */
};

tn_status tn_cpu_kv_open(tn_inst *in, const tn_kv_plan *plan, tn_kv **out, tn_err *err);
void tn_cpu_kv_close(tn_inst *in, tn_kv *kv);
uint64_t tn_cpu_kv_page_bytes(tn_inst *in, const tn_kv *kv, uint32_t pool);
tn_status tn_cpu_kv_move(tn_inst *in, tn_kv *kv, const tn_kv_moves *m);
tn_status tn_cpu_kv_page_read(tn_inst *in, const tn_kv *kv, uint32_t pool, int32_t page, void *dst);
tn_status tn_cpu_kv_page_write(tn_inst *in, tn_kv *kv, uint32_t pool, int32_t page, const void *src);

/* Units of 8-bit codes (coded.c): whether a group's layouts are kept so; where the 16 entries from `slot` on lie, for
 * attention; and entry `slot` from and to the packed form of kernels/ref/layout.h, key and value in a row. */
bool tn_cpu_coded_fits(const cpu_group *g, const cpu_form *f, uint32_t page_tokens);
void tn_cpu_coded_block(const tn_kv *kv, const cpu_group *g, const cpu_form *f, const uint8_t *unit, int64_t slot,
                        int64_t block, tnk_tile *out);
void tn_cpu_coded_take(const tn_kv *kv, const cpu_group *g, const cpu_form *f, const uint8_t *unit, int64_t slot,
                       uint8_t *entry);
void tn_cpu_coded_put(const tn_kv *kv, const cpu_group *g, const cpu_form *f, uint8_t *unit, int64_t slot,
                      const uint8_t *entry);
enum { CPU_CODED_BYTES = 2304 }; /* of the largest entry that tn_cpu_coded_fits takes */

/* Where layer l, head h (indices into the group) of a page begin. */
uint8_t *tn_cpu_kv_unit(const tn_kv *kv, const cpu_group *g, uint32_t layout, int32_t page, uint32_t l, uint32_t h);
/* Decodes entry `slot` of a unit: k [d_k], v [d_v]; and encodes it. */
void tn_cpu_kv_load(const tn_kv *kv, const cpu_group *g, uint32_t layout, const uint8_t *unit, int64_t slot, float *k,
                    float *v);
void tn_cpu_kv_store(const tn_inst *in, const tn_kv *kv, const cpu_group *g, uint32_t layout, uint8_t *unit,
                     int64_t slot, const float *k, const float *v);

/* ---------------------------------------------------------------- program (program.c, check.c) */

typedef struct cpu_head {      /* where the cache entries of one KV head of a record live */
  uint32_t group, layer, head; /* layer, head: indices into the group */
} cpu_head;

typedef struct cpu_op {
  tn_op op;         /* the host's record with a name of its own */
  cpu_head *heads;  /* [attend.n_kv_heads] of KV_WRITE, ATTEND; else NULL */
  tnk_panels w;     /* LINEAR, EMBED */
  const float *vec; /* NORM, LINEAR's and SEGSUM's bias: numbers, or NULL */
  bool codes;       /* LINEAR: multiplied as codes, in whole blocks; else as f32 numbers */
} cpu_op;

enum { CPU_LINEARS = 3, CPU_BEFORE = 4, CPU_AFTER = 8 }; /* of a unit at most */
enum { CPU_ALONE, CPU_ROWS, CPU_MATMUL };                /* cpu_unit.kind, see fuse.c */
enum { CPU_THEN_NOTHING, CPU_THEN_GLU, CPU_THEN_ADD, CPU_THEN_HEADS };

typedef struct cpu_list { /* n items of cost bytes each: `width` panels of one LINEAR, or of two */
  uint32_t linear, n_linears;
  int64_t n, cost;
} cpu_list;

typedef struct cpu_unit { /* records [first, last), run without a barrier in between */
  uint32_t first, last;
  uint8_t kind;
  bool barrier; /* reads or overwrites what units since the last barrier wrote or read */

  /* MATMUL: n_before records that make the input, n_linears LINEARs, then the rest. */
  bool floats; /* a LINEAR is not multiplied as codes */
  bool passes; /* GLU: the next unit takes the result in 8 bits, and nobody else takes it */
  uint8_t then;
  uint8_t owner[CPU_AFTER]; /* HEADS: the LINEAR on whose heads a record works */
  uint32_t n_before, n_linears, n_lists;
  uint32_t kept;       /* bit i: the output of record first + i is left in memory */
  uint32_t pair;       /* HEADS: 1 + the LINEAR of the keys, the next one has the values; 0: none */
  int64_t width, tile; /* panels of a LINEAR in an item; rows that share a panel at a time */
  int64_t cost;        /* of all items */
  cpu_list lists[CPU_LINEARS];
} cpu_unit;

struct tn_prepared {
  tn_kv *kv; /* borrowed */
  uint32_t n_ops, n_acts, n_weights, n_masks, n_tables, n_taps;
  uint32_t flags, max_rows, max_out;
  uint32_t head0, kv_head0; /* lowest in any record: the first of this rank, column 0 of the activations */
  cpu_op *ops;
  struct cpu_call *calls; /* [n_ops] their calls, but for the batch and the worker */
  cpu_unit *units;        /* [n_units] all records */
  uint32_t *unit_of;      /* [n_ops] index of the unit that holds a record */
  uint32_t n_units;
  bool fused;         /* units may have several records */
  tn_tensor *acts;    /* [n_acts], each with a buffer of its own */
  uint32_t *act_rows; /* [n_acts] TN_ROWS_* */
  tn_buffer *buffers; /* [n_acts] */
  tn_tensor *weights; /* [n_weights] borrowed buffers */
  tn_mask *masks;
  uint32_t *table_dims;
  tn_tensor *taps;     /* [n_taps] */
  tn_prepare hooks;    /* ctx, observe, collective */
  bool has_floats;     /* a LINEAR is not multiplied as codes */
  int64_t max_blocks;  /* of a LINEAR's input, in blocks of 32 */
  tnk_cell *cells;     /* [max_rows][max_blocks] a LINEAR's input in 8 bits; NULL: f32 activations */
  float *rounded;      /* [max_rows][32 max_blocks] the same back in f32; NULL: not needed */
  tnk_cell *own_cells; /* [n_workers][CPU_OWN_ROWS][max_blocks] the same of few rows, each worker for itself */
  float *own_rows;     /* [n_workers][CPU_OWN_ROWS + CPU_BEFORE][32 max_blocks] and in f32; rows on the way to them */
  tnk_cell *passed;    /* [max_rows][pass_blocks] what a unit hands to the next one */
  int64_t pass_blocks;
  uint32_t *next; /* [n_ops] task counters, 0 when a run starts */
  uint8_t *work;  /* [n_workers][work_bytes] scratch of ATTEND */
  uint64_t work_bytes;
  float *parts;       /* partial attention of split sequences */
  int64_t parts_size; /* numbers in parts */
};

tn_status tn_cpu_prepare(tn_inst *in, const tn_program *pr, const tn_prepare *how, tn_kv *kv, tn_prepared **out,
                         tn_err *err);
void tn_cpu_prepared_free(tn_inst *in, tn_prepared *p);
tn_status tn_cpu_act(tn_inst *in, tn_prepared *p, uint32_t act, tn_tensor *out);

/* ---------------------------------------------------------------- run (run.c, batch.c) */

/* A matrix of f32 rows: row r at p + r * stride. p NULL: the operand is not there. */
typedef struct cpu_rows {
  float *p;
  int64_t stride, cols, n;
} cpu_rows;

typedef struct cpu_call { /* one record about to run, on resolved operands; each worker has its own copy */
  tn_inst *in;
  const tn_op *op;
  const cpu_op *rec;
  cpu_rows x, x2, y, y2;   /* in0, in1, out0, out1 */
  int64_t n;               /* rows */
  const tn_tensor *w, *w2; /* NULL: none */
  const int32_t *token;    /* EMBED: [n] */
  tn_prepared *p;          /* NULL for a single op */
  const tn_batch *b;       /* NULL for a single op */
  uint32_t worker, n_workers;
  uint32_t *next; /* task counter of this record, 0 when it starts */
} cpu_call;

/* Operand counts and shapes of one record; err names the record. check.c. [cold] */
tn_status tn_cpu_check_operands(const tn_op *op, tn_err *err);
tn_status tn_cpu_check_shapes(const cpu_call *c, tn_err *err);
/* KV_WRITE, ATTEND: where its KV heads live, into heads. */
tn_status tn_cpu_check_heads(const cpu_call *c, cpu_head *heads, tn_err *err);

/* Operands of record i of a program, rows not yet known. */
cpu_call tn_cpu_call_of(tn_inst *in, tn_prepared *p, uint32_t i);
/* Panels and numbers of a checked record's weights into rec. check.c */
void tn_cpu_bind(const cpu_call *c, cpu_op *rec);

tn_status tn_cpu_run(tn_inst *in, tn_prepared *p, uint32_t first, uint32_t last, const tn_batch *b);
tn_status tn_cpu_op(tn_inst *in, const tn_op *op, const tn_tensor *const *ins, const tn_tensor *const *outs,
                    const tn_tensor *const *weights, int64_t n_rows);

/* TN_E_ARG when an index of the batch is out of range for records [first, last). [hot] */
tn_status tn_cpu_batch_check(const tn_prepared *p, uint32_t first, uint32_t last, const tn_batch *b);

/* End of the run of rows of one sequence that begins at row first. */
int64_t tn_cpu_same_seq(const tn_batch *b, int64_t first);
/* Slot of the entry that row `row` sees at order o <= ord: its own, or an ancestor's. */
int64_t tn_cpu_slot_at(const tn_batch *b, int64_t row, int64_t o);

/* Records: the calling worker's share. */
void tn_cpu_do_embed(const cpu_call *c);
void tn_cpu_do_norm(const cpu_call *c);
void tn_cpu_do_add(const cpu_call *c);
void tn_cpu_do_glu(const cpu_call *c);
void tn_cpu_do_rope(const cpu_call *c);
void tn_cpu_do_pick(const cpu_call *c);
void tn_cpu_do_scale(const cpu_call *c);
void tn_cpu_do_softcap(const cpu_call *c);
void tn_cpu_do_merge(const cpu_call *c);
void tn_cpu_do_tap(const cpu_call *c);
void tn_cpu_do_linear(const cpu_call *c); /* has barriers of its own */
void tn_cpu_do_segsum(const cpu_call *c);
void tn_cpu_do_kv_write(const cpu_call *c);
void tn_cpu_do_attend(const cpu_call *c); /* has barriers of its own */

/* NORM, ROPE, KV_WRITE on one head of one row. */
void tn_cpu_head_norm(const cpu_call *c, int64_t row, int64_t head);
void tn_cpu_head_rope(const cpu_call *c, int64_t row, int64_t head);
void tn_cpu_head_write(const cpu_call *c, int64_t row, int64_t head);

/* Rows that share a panel at a time, so that the parts of a sum fit the scratch. */
int64_t tn_cpu_tile_rows(uint32_t segments);
/* Outputs of one panel of LINEAR c for n rows of its input a, plus [n][plus_stride] if not NULL, to y [n][y_stride]: 16
 * columns, or as many as are left. Segments that stay apart are n columns apart. */
void tn_cpu_panel(const cpu_call *c, int64_t panel, const tnk_operand *a, int64_t n, const float *plus,
                  int64_t plus_stride, float *y, int64_t y_stride);

/* ---------------------------------------------------------------- units (fuse.c, unit.c) */

/* Fills units and unit_of from the checked records. TN_E_NOMEM. [cold] */
tn_status tn_cpu_fuse(tn_inst *in, tn_prepared *p);

/* The largest unit of records [first, end) that begins at the first. */
void tn_cpu_unit_at(const tn_inst *in, const tn_prepared *p, uint32_t first, uint32_t end, cpu_unit *u);

/* Call of record i for a batch and a worker. */
cpu_call tn_cpu_call_for(const tn_prepared *p, uint32_t i, const tn_batch *b, uint32_t worker, uint32_t n_workers);

/* Item of a unit that begins nearest to `cost` bytes behind the first. */
int64_t tn_cpu_item_at(const cpu_unit *u, int64_t cost);

/* A MATMUL unit: the calling worker's share; has barriers of its own. take, pass: the unit before hands its result over
 * in 8 bits; this one does so to the next. */
void tn_cpu_do_unit(const tn_prepared *p, const cpu_unit *u, const tn_batch *b, uint32_t worker, uint32_t n_workers,
                    bool take, bool pass);

/* ---------------------------------------------------------------- attention (attend.c, tile.c) */

/* Rows [row0, row1) of one sequence and one KV head. */
typedef struct cpu_sight {
  const cpu_call *c;
  const tn_kv *kv;
  const cpu_group *g;
  const cpu_head *at;
  const tn_kv_view *view;
  float *k32, *v32; /* scratch of one tile: [4][d_k][16], [dv / 16][64][16] */
} cpu_sight;

/* Bits of the ranks of tile t that the row sees; *sinks: those whose keys take the sink query. */
uint64_t tn_cpu_visible(const cpu_sight *s, int64_t row, int64_t t, uint64_t *sinks);

/* Keys and values of tile t as row `row` finds them, at least those of `wanted`. widen: f32 in any case. */
void tn_cpu_tile(const cpu_sight *s, int64_t row, int64_t t, uint64_t wanted, bool widen, tnk_tile *out);

/* Bytes of scratch that one worker needs for a record on group g, and numbers in tn_prepared.parts. */
uint64_t tn_cpu_attend_bytes(const cpu_group *g, const tn_op *op);
int64_t tn_cpu_attend_parts(const cpu_group *g, const tn_op *op);

#endif
