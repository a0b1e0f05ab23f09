/* plugin_api.h: the binary contract between Tenon (the host) and its plugins. The only header a plugin sees.
 *
 * MODEL
 *   A plugin is one .so with one exported function, tn_module_v0. It describes itself (tn_module -> tn_desc) and fills
 *   exactly one slot per descriptor. An INI file says which plugins make up an engine; the host resolves their
 *   capability tokens, parses their options against their own parameter tables, and only then creates instances.
 *   A technique is policy: it decides. Mechanism (KV storage, kernels, verification, sampling, transport, threads) is
 *   the host's and its backend's, so a technique written once runs on every backend.
 *
 *     note read -> dlopen -> entry -> validate -> create -> describe/configure -> active (hot calls) -> destroy
 *     [no code]    [------------- cold -------------------------------------]    [one engine thread]   [cold]
 *
 *   The model is a linear program of op records that the host builds once from the model file. The backend prepares it
 *   (fusing where it likes) and runs any record range on a flat batch of rows (tokens of many sequences). Tensors are
 *   opaque handles: nothing here assumes that the host can read them.
 *
 * GLOSSARY
 *   row     one token of one sequence in one step            L layers      d model width     V vocabulary
 *   rank    logical index of a cache entry in its group      H heads       G KV heads        dh head width
 *   entry   one cached token in one page group               tile 64 consecutive ranks       page  page_tokens ranks
 *   group   layers x KV heads whose entries live and die together; every group has its own page tables
 *   Arrays are row-major, last dimension contiguous. Every cache entry has three numbers: its text position (never
 *   changes; masks use it), its rank, and its rope position (what its key is rotated by).
 *
 * TAGS on function pointers
 *   [cold]    one thread, nothing of this instance running; may allocate and block; fills tn_err on failure
 *   [hot]     engine thread, one call per instance at a time; no allocation, lock, I/O or system call
 *   [worker]  called on several host pool threads at once        [any] any thread, any time
 *   [stream]  enqueues on the backend's one stream and returns; the data is there after sync
 *   Pointers passed in are borrowed until return unless "keeps" is said. Out-structs are the caller's: the writer
 *   stays inside struct_size. Frees accept NULL.
 *
 * ABI RULES
 *   1 Every struct starts with struct_size, set by its producer; fields are only ever appended; test with TN_HAS.
 *   2 Arrays of structs cross as arrays of pointers or as separate arrays, vtables by pointer.
 *   3 No enum, bool, bit-field, long or implicit padding in a struct; reserved fields are 0 and checked.
 *   4 A plugin exports its entry symbol only, links nothing of the host, creates no threads, prints nothing, keeps no
 *     mutable globals and leaves process state (signals, locale, environment, MXCSR) alone.
 *   5 Until the contract is frozen as v1 the entry is tn_module_v0 and host and plugin minors must be equal. From v1
 *     on the effective version is the smaller minor of the two, and a newer peer is no reason to refuse.
 *   6 Features grow through ids ("tenon.pool/1"); an unknown id is NULL, never an error; an id never changes meaning.
 */
#ifndef TN_PLUGIN_API_H
#define TN_PLUGIN_API_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Set by hand: one field or hook a line, tags in a column. */
/* clang-format off */

#define TN_ABI_MAJOR 0u /* in the entry symbol's name too */
#define TN_ABI_MINOR 1u /* bumped by every change while the major is 0 */
#define TN_EXPORT __attribute__((visibility("default")))

/* Field f of *p exists: its producer was compiled with it. TN_CAN: and it is set. */
#define TN_HAS(p, f) ((p)->struct_size >= offsetof(__typeof__(*(p)), f) + sizeof((p)->f))
#define TN_CAN(p, f) (TN_HAS(p, f) && (p)->f)

/* ---------------------------------------------------------------- status */

typedef int32_t tn_status; /* an unknown negative value means TN_E_INTERNAL */
enum {
  TN_OK = 0,
  TN_E_ARG = -1,         /* the caller's value is outside what is allowed */
  TN_E_NOMEM = -2,       /* no memory; nothing changed */
  TN_E_UNSUPPORTED = -3, /* understood, but not offered */
  TN_E_STATE = -4,       /* not in this state, or cancelled */
  TN_E_VERSION = -5,     /* ABI or plugin version does not fit */
  TN_E_IO = -6,          /* a file or the network */
  TN_E_DEVICE = -7,      /* the backend's device */
  TN_E_INTERNAL = -8,    /* a fault of the callee */
  TN_E_FULL = -9,        /* no pages now; the scheduler may free some and try again */
  TN_E_NEVER = -10       /* can never fit, whatever is freed */
};

typedef struct tn_err { /* caller-owned text of a cold failure */
  uint32_t struct_size;
  tn_status code;
  char msg[504]; /* one sentence, UTF-8 */
} tn_err;

typedef struct tn_inst tn_inst; /* a plugin's instance: opaque to the host */
typedef struct tn_hctx tn_hctx; /* the host's side of one instance: opaque to the plugin */

/* ---------------------------------------------------------------- element types and layouts */

/* Numbered as GGUF's tensor types, so a file's type word is a dtype. Block formats decode as their format defines. */
enum {
  TN_DT_F32 = 0, TN_DT_F16 = 1, TN_DT_Q4_0 = 2, TN_DT_Q4_1 = 3, TN_DT_Q5_0 = 6, TN_DT_Q5_1 = 7, TN_DT_Q8_0 = 8,
  TN_DT_Q2_K = 10, TN_DT_Q3_K = 11, TN_DT_Q4_K = 12, TN_DT_Q5_K = 13, TN_DT_Q6_K = 14, TN_DT_IQ4_NL = 20,
  TN_DT_IQ4_XS = 23, TN_DT_I8 = 24, TN_DT_I16 = 25, TN_DT_I32 = 26, TN_DT_I64 = 27, TN_DT_F64 = 28, TN_DT_BF16 = 30,
  TN_DT_LAYOUT = 0x1000 /* what tn_tensor.layout says */
};

enum { TN_LAY_DENSE = 1, TN_LAY_AFFINE = 2, TN_LAY_FLOAT8 = 3, TN_LAY_TABLE = 4, TN_LAY_EXOTIC = 5 };
enum { TN_OFF_NONE = 0 /* zero point 2^(bits-1) */, TN_OFF_INT = 1 /* x = s(q - z) */, TN_OFF_MIN = 2 /* x = s q + m */ };
enum { TN_FP8_E4M3 = 1 /* OCP fn: no inf, max 448 */, TN_FP8_E5M2 = 2 };

/* How values are stored. Quantizers choose the values, a layout stores them, the backend multiplies with them.
 * AFFINE: codes 0..2^bits-1, one scale (and offset) per group of the contiguous dimension. Two-level (super > 0):
 * group scale = d * sub_scale, group offset = -dmin * sub_offset, with integer sub values and f16 d, dmin per super
 * groups' span (Q4_K and Q6_K have this form). TABLE: x = s table[code]. FLOAT8: x = s fp8(code). */
typedef struct tn_layout {
  uint32_t struct_size, kind;
  uint32_t dtype;      /* DENSE: F32, F16, BF16 or a block format */
  uint32_t bits;       /* AFFINE, TABLE: 1..6 or 8 */
  uint32_t group;      /* elements per scale, 16..256, or 0: the whole row */
  uint32_t scale_type; /* TN_DT_F32, F16 or BF16 */
  uint32_t offset;     /* TN_OFF_* */
  uint32_t super;      /* groups per super group; 0: one level */
  uint32_t sub_bits;   /* bits of the integer sub scale and sub offset, 4..8 */
  uint32_t fp8;        /* TN_FP8_* */
  const float *table;  /* [1 << bits], borrowed for the instance's life */
  const char *exotic;  /* EXOTIC: "org.example.name/1"; the quantizer brings dequantize */
} tn_layout;

/* ---------------------------------------------------------------- tensors */

typedef struct tn_buffer tn_buffer; /* the backend's; never dereferenced outside it */

typedef struct tn_tensor {
  uint32_t struct_size, dtype;
  tn_buffer *buf;
  uint64_t offset;         /* bytes from the buffer's start */
  int64_t ne[4];           /* elements; ne[0] contiguous; unused 1 */
  int64_t nb[4];           /* stride of each dimension in bytes (block formats: nb[0] of a block) */
  const tn_layout *layout; /* TN_DT_LAYOUT only */
} tn_tensor;

/* ---------------------------------------------------------------- parameters */

enum { TN_T_BOOL = 1, TN_T_I64 = 2, TN_T_F64 = 3, TN_T_STR = 4, TN_T_ENUM = 5, TN_T_BYTES = 6 /* "512M" */,
       TN_T_PATH = 7, TN_T_F64_LIST = 8 /* "1.0, 1.5" */ };
enum {
  TN_P_REQUIRED = 1u << 0,
  TN_P_RUNTIME = 1u << 1,  /* set() may change it between steps */
  TN_P_OUTPUT = 1u << 2,   /* can change tokens: part of the fingerprint */
  TN_P_REQUEST = 1u << 3,  /* a request may override it: see tn_ext_sequence.begin */
  TN_P_DEPRECATED = 1u << 4
};

typedef struct tn_value { /* BOOL: i 0/1; ENUM: i index of the choice; BYTES: i; STR, PATH: s; F64_LIST: list[len] */
  uint32_t type, len;
  union {
    int64_t i;
    double f;
    const char *s;
    const double *list;
  } v;
} tn_value;

typedef struct tn_param {
  uint32_t struct_size, type, flags, n_choices;
  const char *key, *help, *unit, *def; /* def: text, parsed by the host; NULL with REQUIRED */
  const char *const *choices;          /* ENUM: [n_choices] */
  int64_t imin, imax;                  /* inclusive; I64, BYTES */
  double fmin, fmax;                   /* inclusive; F64, F64_LIST */
} tn_param;

/* ---------------------------------------------------------------- host services */

enum { TN_LOG_DEBUG = 0, TN_LOG_INFO = 1, TN_LOG_WARN = 2, TN_LOG_ERROR = 3 };

typedef struct tn_host { /* valid from create() until destroy() returns; in the entry call only log may be used */
  uint32_t struct_size, abi_major, abi_minor, reserved0;
  const char *name, *version;
  tn_hctx *ctx;
  void (*log)(tn_hctx *, int32_t level, const char *msg);             /* [any] */
  void *(*alloc)(tn_hctx *, uint64_t bytes, uint64_t align);          /* [cold] align a power of two; NULL: none */
  void (*free_)(tn_hctx *, void *);                                   /* [cold] */
  void (*count)(tn_hctx *, uint32_t counter, uint64_t n);             /* [any] adds to tn_desc.counters[counter] */
  const void *(*service)(tn_hctx *, const char *id);                  /* [cold] NULL: not offered */
} tn_host;

/* "tenon.pool/1": the engine's compute threads. gang() runs fn once on each of n_workers threads (the caller is worker
 * 0) and returns when all are done. barrier() may be called inside fn, by all workers equally often. */
typedef struct tn_svc_pool {
  uint32_t struct_size, n_workers;
  void (*gang)(tn_hctx *, void (*fn)(void *arg, uint32_t worker, uint32_t n_workers), void *arg); /* [hot] */
  void (*barrier)(tn_hctx *);                                                                      /* [worker] */
} tn_svc_pool;

/* "tenon.rng/1": counter-based draws, the same whatever the batch: uniform in [0,1) keyed by all four numbers. */
typedef struct tn_svc_rng {
  uint32_t struct_size, reserved0;
  double (*uniform)(tn_hctx *, uint64_t request, uint64_t position, uint32_t purpose, uint32_t index); /* [any] */
} tn_svc_rng;

/* "tenon.clock/1": monotonic nanoseconds; a fake clock under test. */
typedef struct tn_svc_clock {
  uint32_t struct_size, reserved0;
  uint64_t (*now_ns)(tn_hctx *); /* [any] */
} tn_svc_clock;

/* "tenon.cache/1" (backends, in weight_load): what a backend makes of weights, kept in a file for the next process. The
 * host chooses the file by the model's files, the plugins that make the weights and the rank. form says what the bytes are
 * (layout and its version), key is tn_weight_src.key. */
typedef struct tn_svc_cache {
  uint32_t struct_size, reserved0;
  /* What put() was given under form and key, if it has so many bytes: read-only, 64-aligned, mapped and shared with other
   * processes, valid until destroy() returns. NULL: not there. [cold] */
  const void *(*get)(tn_hctx *, const char *form, const char *key, uint64_t bytes);
  void (*put)(tn_hctx *, const char *form, const char *key, const void *p, uint64_t bytes); /* [cold] copies */
} tn_svc_cache;

struct tn_op;
/* "tenon.ops/1": tensors and single ops on the engine's backend, for drafters and quantizers. in/out follow tn_op. */
typedef struct tn_svc_ops {
  uint32_t struct_size, reserved0;
  tn_status (*tensor_new)(tn_hctx *, uint32_t dtype, const int64_t ne[4], tn_tensor *out, tn_err *); /* [cold] */
  void (*tensor_free)(tn_hctx *, tn_tensor *);                                                       /* [cold] */
  tn_status (*upload)(tn_hctx *, const tn_tensor *dst, const void *src, uint64_t bytes);             /* [stream] */
  tn_status (*download)(tn_hctx *, const tn_tensor *src, void *dst, uint64_t bytes);                 /* [stream] */
  tn_status (*sync)(tn_hctx *);                                                                      /* [hot] */
  /* Runs one stateless record (EMBED NORM LINEAR ADD GLU SCALE SOFTCAP SEGSUM) on n_rows rows; EMBED takes its tokens
   * from in[0], an I32 tensor. [hot][stream] */
  tn_status (*run)(tn_hctx *, const struct tn_op *op, const tn_tensor *const *in, const tn_tensor *const *out,
                   const tn_tensor *const *weights, int64_t n_rows);
} tn_svc_ops;

/* ---------------------------------------------------------------- the model, as plugins see it */

typedef struct tn_model_shape {
  uint32_t struct_size, n_layers, n_heads, n_kv_heads;
  uint32_t d_model, d_head, d_ff, n_vocab;
  uint32_t n_ctx_train, rope_dims, n_classes; /* classes: layers that share window and rope base (Gemma: 2) */
  uint32_t reserved0;
  const char *arch;                /* "llama" */
  const uint32_t *layer_class;     /* [n_layers] */
  const int64_t *class_window;     /* [n_classes]; 0: no window */
  const double *class_rope_base;   /* [n_classes] */
} tn_model_shape;

/* What was chosen, for validate(): the whole composition before any instance exists. */
typedef struct tn_plan_part {
  uint32_t struct_size, slot;
  const char *key;  /* the INI key: "draft", "kv", "weights" */
  const char *name; /* "ngram" */
  const char *id;   /* "org.tenon.ngram" */
} tn_plan_part;

typedef struct tn_plan {
  uint32_t struct_size, n_parts, world, page_tokens;
  int64_t max_ctx;                    /* tokens a sequence may have */
  const tn_model_shape *model;        /* NULL when composing without a model */
  const tn_plan_part *const *parts;   /* [n_parts] */
} tn_plan;

/* "tenon.model/1": the target model, for drafters (head on any hidden row, layer ranges, weights by name). */
typedef struct tn_run_rows { /* rows for a record range; the host builds the batch */
  uint32_t struct_size, n_rows;
  uint64_t seq;
  const int32_t *token;   /* [n_rows]; read when the range starts at the embedding */
  const int32_t *parent;  /* [n_rows] index of the parent row, -1: the committed sequence */
  const tn_tensor *hidden_in; /* [n_rows][d] or NULL; read when the range starts later */
  tn_tensor *act_out;     /* receives the handle of the range's last output, valid until the next run */
} tn_run_rows;

typedef struct tn_svc_model {
  uint32_t struct_size, reserved0;
  const tn_model_shape *shape;
  tn_status (*meta_str)(tn_hctx *, const char *key, const char **s, uint64_t *len);              /* [cold] */
  tn_status (*meta_f64)(tn_hctx *, const char *key, double *out);                                /* [cold] */
  tn_status (*weight)(tn_hctx *, const char *name, tn_tensor *out);                              /* [cold] borrowed */
  tn_status (*record)(tn_hctx *, const char *name, uint32_t *index);                             /* [cold] */
  /* Runs records [first, last) on rows that are not committed: their KV goes to scratch entries behind the sequence
   * and is gone (or is written again) with the next step. [hot] */
  tn_status (*run)(tn_hctx *, uint32_t first, uint32_t last, const tn_run_rows *rows);
  /* A second model (a draft model): its own weights and KV on the same backend. eval() appends tokens after keeping
   * the first n_keep, and returns host logits [n_vocab] of the last one, borrowed until the next call. */
  tn_status (*open)(tn_hctx *, const char *path, void **model, tn_err *);                        /* [cold] */
  void (*close)(tn_hctx *, void *model);                                                         /* [cold] */
  tn_status (*eval)(tn_hctx *, void *model, uint64_t seq, int64_t n_keep, const int32_t *tokens, int64_t n,
                    const float **logits);                                                       /* [hot] */
} tn_svc_model;

/* ---------------------------------------------------------------- attention masks */

/* A query at text position i sees the entry at text position j when every mask of the layer lets it:
 * j <= i, and (j < sinks or (lo <= i - j < hi and (i - j) % stride == residue)). The all-pass mask is TN_MASK_ALL. */
typedef struct tn_mask {
  int64_t lo, hi, stride, residue, sinks; /* frozen, no struct_size */
} tn_mask;
#define TN_POS_INF (INT64_MAX / 2)
#define TN_MASK_ALL { 0, TN_POS_INF, 1, 0, 0 }

enum { TN_TILE_FULL = 0, TN_TILE_MASK = 1 /* the layer's masks */, TN_TILE_BITMAP = 2 };

/* The key tiles that the 64 queries of one query tile may see; keys of tiles not listed are not seen. Causality and
 * the other owners' masks apply on top. The first mask of a record with tiles is the tile owner's own: it counts in
 * tiles of kind MASK only. */
typedef struct tn_tile_list {
  uint32_t struct_size, n, cap, reserved0;
  int32_t *tile;    /* [cap] ascending key tile (text position / 64) */
  uint8_t *kind;    /* [cap] TN_TILE_* */
  uint64_t *bitmap; /* [cap][64]: bit b of word q: query q of the tile sees key b */
} tn_tile_list;

enum { TN_PHI_ELU1 = 1 /* elu(x)+1 */, TN_PHI_FAVOR = 2 /* positive random features */ };

typedef struct tn_state_spec { /* recurrent attention: S += phi(k) v^T, z += phi(k); o = phi(q) S / (phi(q) z + eps) */
  uint32_t struct_size, phi, n_features, fold; /* fold: 64, the absolute boundary at which rows enter the state */
  double eps;
  const float *features; /* FAVOR: [n_features][dh], borrowed for the instance's life; ELU1: NULL */
} tn_state_spec;

/* ---------------------------------------------------------------- the program */

enum {
  TN_OP_EMBED = 1, /* out0[r] = w0[token[r]] * scale */
  TN_OP_NORM,      /* out0 = in0 / rms(in0) * w0, per span of norm.span columns */
  TN_OP_LINEAR,    /* out0 = in0 w0^T (+ w1): summed in linear.segments equal parts of k, parts added in order */
  TN_OP_SEGSUM,    /* out0 = in0's parts [segments][cols] added in order (+ w1) */
  TN_OP_ADD,       /* out0 = in0 + in1 */
  TN_OP_GLU,       /* out0 = act(in0) * in1 */
  TN_OP_ROPE,      /* out0 = rotate(in0) by the batch's table of rope.table */
  TN_OP_KV_WRITE,  /* writes keys in0, values in1 of its layer */
  TN_OP_ATTEND,    /* out0 = softmax(mask(in0 K^T * scale)) V; in1: queries for sink entries, or -1; out1: lse, or -1 */
  TN_OP_STATE_MIX, /* out0 = recurrent attention of queries in0 over the state and the unfolded rows */
  TN_OP_PICK,      /* out0[i] = in0[out_row[i]]: only rows whose logits are wanted go on */
  TN_OP_SCALE,     /* out0 = in0 * scale */
  TN_OP_SOFTCAP,   /* out0 = cap tanh(in0 / cap) */
  TN_OP_TAP,       /* copies in0's rows to tap tap.index of tn_prepare */
  TN_OP_OBSERVE,   /* hands in0 to observer tap.index of tn_prepare */
  TN_OP_COLLECTIVE,/* exchanges in0 into out0 with the other ranks */
  TN_OP_MERGE,     /* out0 = attention parts in0 [parts][cols] joined by their lse in1 [parts][heads], in order */
  TN_OP_EXT        /* a kernel that a plugin brings, by id */
};
enum { TN_ACT_SILU = 1, TN_ACT_GELU_TANH = 2, TN_ACT_NONE = 3 };
enum { TN_ROPE_INTERLEAVED = 1 /* pairs (2i, 2i+1) */, TN_ROPE_HALF = 2 /* pairs (i, i + dims/2) */ };
enum { TN_COLL_ALL_GATHER = 1 /* columns of the ranks in order */, TN_COLL_ALL_REDUCE = 2 /* added in rank order */,
       TN_COLL_SEND = 3, TN_COLL_RECV = 4, TN_COLL_BROADCAST = 5 };
enum { TN_OPF_COLSUM = 1u << 0 /* ATTEND adds attention to the batch's signals */,
       TN_OPF_KNORM = 1u << 1 /* KV_WRITE writes key norms to the batch's signals */,
       TN_OPF_PARTS = 1u << 2 /* LINEAR leaves its segments apart: out0 is [segments][cols] a row */ };

typedef struct tn_op_embed { double scale; } tn_op_embed;
typedef struct tn_op_norm { double eps; int64_t span; } tn_op_norm; /* span divides the columns */
typedef struct tn_op_linear { int64_t n, k; uint32_t segments, reserved0; } tn_op_linear;
typedef struct tn_op_glu { uint32_t act, reserved0; } tn_op_glu;
typedef struct tn_op_rope { uint32_t n_heads, d_head, dims, style, table, sink; } tn_op_rope; /* sink: sink_pos table */
typedef struct tn_op_attend {
  uint32_t n_heads, n_kv_heads, d_head, d_v; /* heads of this rank */
  uint32_t head0, kv_head0;                  /* first of them in the model. A record's columns of an act start at
                                                (head0 - the program's lowest head0) d_head; likewise for KV heads */
  float scale, softcap;                      /* softcap 0: none */
  uint32_t mask, n_masks;                    /* tn_program.masks[mask .. mask + n_masks), all must agree */
  uint32_t state, rope;                      /* STATE_MIX: index of its page group; RAW keys: rope table and ... */
  uint32_t rope_style, rope_dims;            /* ... how to rotate them */
  uint32_t tiles;                            /* 0, or 1 + index into tn_batch.tile_sets */
  uint32_t n_sinks;                          /* queries in1 serve entries at text positions < n_sinks */
} tn_op_attend;
typedef struct tn_op_scale { double x; } tn_op_scale; /* SCALE: factor; SOFTCAP: cap */
typedef struct tn_op_index { uint32_t index, reserved0; } tn_op_index;
typedef struct tn_op_merge { uint32_t parts, n_heads; } tn_op_merge;
typedef struct tn_op_coll { uint32_t kind, peer; uint64_t tag; } tn_op_coll;
typedef struct tn_op_ext { const char *id; const void *data; } tn_op_ext;

typedef struct tn_op { /* one record */
  uint32_t struct_size, kind;
  const char *name;     /* stable: "blk.17.attn_out" */
  int32_t layer;        /* -1 outside the layers */
  uint32_t flags;       /* TN_OPF_* */
  int32_t in[4], out[2], w[2]; /* indices into tn_program.acts and .weights; -1: unused */
  union {
    tn_op_embed embed;
    tn_op_norm norm;
    tn_op_linear linear;  /* LINEAR, SEGSUM */
    tn_op_glu glu;
    tn_op_rope rope;
    tn_op_attend attend;  /* ATTEND, STATE_MIX, KV_WRITE */
    tn_op_scale scale;
    tn_op_index tap;      /* TAP, OBSERVE */
    tn_op_merge merge;
    tn_op_coll coll;
    tn_op_ext ext;
    uint64_t raw[16];     /* size of the union for good; unused words 0 */
  } p;
} tn_op;

enum { TN_ROWS_ALL = 0, TN_ROWS_OUT = 1 };

typedef struct tn_act { /* an activation: [rows][cols] f32, rows known at run time */
  uint32_t struct_size, rows; /* TN_ROWS_* */
  int64_t cols;
  const char *name;
} tn_act;

enum { TN_KV_CACHE = 1, TN_KV_STATE = 2 };
enum { TN_KEYS_ROTATED = 0, TN_KEYS_RAW = 1 };

typedef struct tn_kv_group { /* n_layers x n_heads whose entries live and die together */
  uint32_t struct_size, kind;
  uint32_t n_layers, n_heads, d_k, d_v;
  uint32_t keys, n_layouts;           /* TN_KEYS_*; layout 0 is what KV_WRITE writes, others take demoted entries */
  const int32_t *layers, *heads;      /* [n_layers], [n_heads] KV heads, model numbering */
  const uint32_t *pools;              /* [n_layouts] pool that pages of the layout come from */
  const tn_layout *const *k_layouts;  /* [n_layouts] */
  const tn_layout *const *v_layouts;
  const tn_state_spec *state;         /* KIND_STATE: besides a tail of rows, one state; its pool is state_pool */
  uint32_t state_pool, reserved0;
} tn_kv_group;

typedef struct tn_program {
  uint32_t struct_size, n_ops, n_acts, n_weights, n_groups, n_masks, n_tables, logits; /* logits: an act */
  const tn_op *const *ops;
  const tn_act *const *acts;
  const tn_tensor *const *weights;
  const tn_kv_group *const *groups;
  const tn_mask *masks;
  const uint32_t *table_dims;         /* [n_tables] rotated dims of each rope table */
  uint32_t n_kv_heads, reserved0;     /* KV heads of the model, of which a rank may hold some */
} tn_program;

/* ---------------------------------------------------------------- one step's batch */

typedef struct tn_kv_view { /* one sequence's entries in one group. Entry r: page[r / page_tokens], r % page_tokens */
  uint32_t struct_size, n_pages;
  int64_t n;                 /* committed entries; rows of this step are written behind them */
  const int32_t *page;       /* [n_pages] page id in its layout's pool; -1: freed by mask, never read */
  const uint8_t *layout;     /* [n_pages] or NULL: all layout 0 */
  const int64_t *text_pos;   /* [n] or NULL: entry r is text position r. -1: a hole, skipped */
  const int64_t *rope_pos;   /* [n] or NULL: equal to text_pos. RAW keys are rotated by it */
  const float *cos, *sin;    /* RAW keys: [n + new rows][dims/2] by entry (n + slot); else NULL */
  int64_t folded;            /* KIND_STATE: tokens already in the state, a multiple of 64 */
  int32_t state;             /* KIND_STATE: page id in state_pool */
  uint32_t reserved0;
} tn_kv_view;

typedef struct tn_signal { /* accumulators of one sequence (or of one drafted row), per group, by entry (view.n + slot) */
  uint32_t struct_size, n_groups;
  int64_t *const *attn;  /* [n_groups] -> [entries]; attention received, unit 2^-32, summed over the group's heads and
                            layers; NULL: not wanted */
  int64_t *const *knorm; /* [n_groups] -> [entries]; |k|_2 in units of 2^-16, summed likewise; NULL: not wanted */
} tn_signal;

typedef struct tn_seq_view {
  uint32_t struct_size, n_groups;
  uint64_t id;
  const tn_kv_view *const *kv; /* [n_groups] */
} tn_seq_view;

typedef struct tn_tile_set { /* tile lists of one (layer class, KV head) of one sequence, by query tile */
  uint32_t struct_size, n;
  const tn_tile_list *const *lists; /* [n]; NULL: not needed this step */
  int64_t first;                    /* query tile of lists[0] */
} tn_tile_set;

typedef struct tn_batch { /* all arrays are host memory, borrowed until run() returns; rows of a sequence are adjacent */
  uint32_t struct_size, n_rows, n_seqs, n_out, n_path, n_signals, n_tables, n_tile_sets;
  const int32_t *token;      /* [n_rows] */
  const int32_t *seq;        /* [n_rows] index into seqs */
  const int64_t *text_pos;   /* [n_rows] */
  const int32_t *ord;        /* [n_rows] logical order behind the committed entries: rank = view.n + ord (tree: depth) */
  const int32_t *slot;       /* [n_rows] storage order behind the committed entries: entry = view.n + slot */
  const int32_t *path;       /* [n_path] slots of ancestors, concatenated */
  const int32_t *path_off;   /* [n_rows] -1: ord == slot all the way; else path[off + o] is the slot at ord o < ord */
  const int32_t *out_row;    /* [n_out] rows whose logits are wanted, ascending */
  const int32_t *signal;     /* [n_rows] index into signals, -1: none; or NULL */
  const tn_seq_view *const *seqs;
  const tn_signal *const *signals;
  const float *const *cos;   /* [n_tables] -> [n_rows][dims/2] of the rows' rope positions, scaled by mscale */
  const float *const *sin;
  const float *const *sink_cos; /* the same for queries against sink entries; NULL pointers: not used */
  const float *const *sink_sin;
  /* [n_tile_sets * n_seqs * G], G = tn_program.n_kv_heads: set s, sequence q, head g at (s n_seqs + q) G + g; or NULL */
  const tn_tile_set *const *tile_sets;
} tn_batch;

/* ---------------------------------------------------------------- slot: backend */

enum { TN_W_FILE = 1 /* bytes as in the file */, TN_W_CODES = 2 /* a quantizer's codes */, TN_W_F32 = 3 };

typedef struct tn_weight_src { /* a weight on its way to the backend */
  uint32_t struct_size, kind;
  const char *name;
  uint32_t dtype, role;       /* FILE: the bytes' dtype; role: TN_ROLE_* */
  int64_t n, k;               /* rows (outputs), columns (inputs) */
  const void *data;           /* FILE, F32: [n][k]; borrowed until weight_free when TN_WF_STABLE */
  uint64_t bytes;
  const tn_layout *layout;    /* CODES */
  const uint8_t *codes;       /* CODES: [n][k] one code a byte */
  const float *scale;         /* [n][groups] */
  const float *offset;        /* [n][groups] zero point or min; NULL: none */
  const uint8_t *sub_scale, *sub_offset; /* two-level: [n][groups] */
  const float *d, *dmin;      /* two-level: [n][supers] */
  uint32_t flags, reserved0;  /* TN_WF_* */
  const char *key;            /* of these values in "tenon.cache/1"; NULL: they are not to be put there */
  /* FILE: rows [row, row + n) were read and need not stay in memory (they are still there). NULL: nothing to say.
   * [any], until weight_load returns */
  void (*read)(const struct tn_weight_src *, int64_t row, int64_t n);
} tn_weight_src;
enum { TN_WF_STABLE = 1u << 0, /* data stays mapped: may be used in place */
       TN_WF_KEPT = 1u << 1    /* neither data nor codes are given: load what get() has under key, else return
                                  TN_E_STATE and do nothing. Only a backend that has called put() is given it */ };
enum { TN_ROLE_EMBED = 1, TN_ROLE_NORM, TN_ROLE_Q, TN_ROLE_K, TN_ROLE_V, TN_ROLE_ATTN_OUT, TN_ROLE_GATE, TN_ROLE_UP,
       TN_ROLE_DOWN, TN_ROLE_HEAD, TN_ROLE_BIAS, TN_ROLE_OTHER };

typedef struct tn_kv_plan {
  uint32_t struct_size, n_pools, page_tokens, n_groups;
  const uint32_t *pool_pages;             /* [n_pools] */
  const tn_kv_group *const *groups;       /* [n_groups] */
} tn_kv_plan;

typedef struct tn_kv_moves { /* n entries of one group copied (decoded and encoded where layouts differ), in order */
  uint32_t struct_size, group, n, reserved0;
  const int32_t *src_page, *src_slot, *dst_page, *dst_slot; /* [n] */
  const uint8_t *src_layout, *dst_layout;                   /* [n] or NULL: 0 */
} tn_kv_moves;

enum { TN_PREP_UNFUSED = 1u << 0, TN_PREP_NAIVE_ATTENTION = 1u << 1, TN_PREP_ACT_INT8 = 1u << 2 };

typedef struct tn_prepare {
  uint32_t struct_size, flags, max_rows, max_out;
  uint32_t n_taps, rank;
  const tn_tensor *const *taps;  /* [n_taps] [max_rows][cols] f32 */
  void *ctx;                     /* for the two calls below, made from run() on its caller's thread */
  tn_status (*observe)(void *ctx, const tn_op *op, const tn_tensor *x, uint32_t n_rows);
  tn_status (*collective)(void *ctx, const tn_op *op, const tn_tensor *in, const tn_tensor *out, uint32_t n_rows);
} tn_prepare;

typedef struct tn_backend_info {
  uint32_t struct_size, max_rows;  /* rows a run may have; 0: no limit of its own */
  uint32_t host_memory, reserved0; /* 1: buffers are host memory (informative) */
  const char *device;              /* "AVX2, 2 threads" */
} tn_backend_info;

typedef struct tn_kv tn_kv;
typedef struct tn_prepared tn_prepared;

/* Tokens a backend may provide: attn.mask/1 attn.tiles/1 attn.tree/1 attn.scores/1 (column sums) attn.lse/1
 * attn.state/1 rope.renumber/1 (sink queries) kv.raw/1 (raw keys) kv.per_head/1 kv.layouts/1 hidden.tap/1 observe/1
 * collective/1 act.int8/1 weight.affine/1 weight.fp8/1 weight.table/1 run.range/1. */
typedef struct tn_backend_v1 {
  uint32_t struct_size, reserved0;
  tn_status (*info)(tn_inst *, tn_backend_info *out);                                                      /* [any] */
  tn_status (*buffer_new)(tn_inst *, uint64_t bytes, tn_buffer **out, tn_err *);                           /* [cold] */
  void (*buffer_free)(tn_inst *, tn_buffer *);                                                             /* [cold] */
  tn_status (*upload)(tn_inst *, tn_buffer *dst, uint64_t offset, const void *src, uint64_t bytes);        /* [stream] */
  tn_status (*download)(tn_inst *, const tn_buffer *src, uint64_t offset, void *dst, uint64_t bytes);      /* [stream] */
  tn_status (*sync)(tn_inst *);                                                                            /* [hot] */
  tn_status (*weight_load)(tn_inst *, const tn_weight_src *, tn_tensor *out, tn_err *);                    /* [cold] */
  void (*weight_free)(tn_inst *, tn_tensor *);                                                             /* [cold] */
  tn_status (*weight_read)(tn_inst *, const tn_tensor *, int64_t row0, int64_t n_rows, float *dst);        /* [cold] */
  tn_status (*kv_open)(tn_inst *, const tn_kv_plan *, tn_kv **out, tn_err *);                              /* [cold] */
  void (*kv_close)(tn_inst *, tn_kv *);                                                                    /* [cold] */
  uint64_t (*kv_page_bytes)(tn_inst *, const tn_kv *, uint32_t pool);                                      /* [any] */
  tn_status (*kv_move)(tn_inst *, tn_kv *, const tn_kv_moves *);                                           /* [stream] */
  tn_status (*kv_page_read)(tn_inst *, const tn_kv *, uint32_t pool, int32_t page, void *dst);             /* [stream] */
  tn_status (*kv_page_write)(tn_inst *, tn_kv *, uint32_t pool, int32_t page, const void *src);            /* [stream] */
  /* Zeroes a state, or adds the 64 committed rows from entry view.folded on to it. */
  tn_status (*state_reset)(tn_inst *, tn_kv *, uint32_t group, int32_t state);                             /* [stream] */
  tn_status (*state_fold)(tn_inst *, tn_kv *, uint32_t group, const tn_kv_view *);                         /* [stream] */
  tn_status (*prepare)(tn_inst *, const tn_program *, const tn_prepare *, tn_kv *, tn_prepared **out, tn_err *); /* [cold] */
  void (*prepared_free)(tn_inst *, tn_prepared *);                                                         /* [cold] */
  /* Runs records [first, last). A range that does not start at 0 finds its inputs where the last run left them. */
  tn_status (*run)(tn_inst *, tn_prepared *, uint32_t first, uint32_t last, const tn_batch *);             /* [stream] */
  tn_status (*act)(tn_inst *, tn_prepared *, uint32_t act, tn_tensor *out);                                /* [any] */
  tn_status (*op)(tn_inst *, const tn_op *, const tn_tensor *const *in, const tn_tensor *const *out,
                  const tn_tensor *const *weights, int64_t n_rows);                                        /* [stream] */
} tn_backend_v1;

/* ---------------------------------------------------------------- slot: memory */

typedef struct tn_mem_shape {
  uint32_t struct_size, n_pools, page_tokens, max_seqs;
  const uint32_t *pool_pages;      /* [n_pools] pages in each pool, ids 0 .. pages - 1 */
  const uint32_t *pages_per_seq;   /* [n_pools] pages of one sequence of max_ctx tokens */
} tn_mem_shape;

typedef struct tn_mem_need { /* per pool */
  uint32_t struct_size, n_pools;
  uint64_t seq;
  const uint32_t *now;  /* [n_pools] pages needed to start */
  const uint32_t *most; /* [n_pools] pages if it runs to its limit */
} tn_mem_need;

/* Which physical pages hold a sequence's KV. Ids only: refcounts, the prefix index, copies and swap are the host's.
 * Every id of a pool is free after configure, and again once given back. Tokens: kv.pages/1, kv.share/1 (pages of one sequence may be held by another), kv.grow/1, kv.token_drop/1. */
typedef struct tn_memory_v1 {
  uint32_t struct_size, reserved0;
  tn_status (*configure)(tn_inst *, const tn_mem_shape *, tn_err *);                                /* [cold] */
  /* May the sequence start? TN_OK (quota taken), TN_E_FULL (try later), TN_E_NEVER. [hot] */
  tn_status (*admit)(tn_inst *, const tn_mem_need *);
  /* n pages of one pool for a sequence, all or none (TN_E_FULL; TN_E_NEVER: past its quota). near: the sequence's
   * last page of that pool and group, -1 for none. [hot] */
  tn_status (*take)(tn_inst *, uint64_t seq, uint32_t pool, int32_t near, uint32_t n, int32_t *out);
  void (*give)(tn_inst *, uint32_t pool, uint32_t n, const int32_t *pages);                          /* [hot] */
  void (*end)(tn_inst *, uint64_t seq);                                                              /* [hot] */
  uint32_t (*free_pages)(tn_inst *, uint32_t pool);                                                  /* [any] */
  uint32_t (*page_tokens)(tn_inst *); /* [cold] 16, 32 or 64, asked before configure; NULL: 16 */
  uint32_t (*quota)(tn_inst *, uint32_t pool); /* [any] pages of the pool that one sequence may need; NULL: all */
} tn_memory_v1;

/* ---------------------------------------------------------------- slot: eviction */

enum { TN_GRAN_ALL = 1 /* one decision for all layers */, TN_GRAN_LAYER = 2, TN_GRAN_HEAD = 3 };
enum { TN_EV_POSITION = 1 /* a mask on text positions, exact */, TN_EV_SCORE = 2 };
enum { TN_SIG_ATTN = 1u << 0 /* accumulated since the entry was written */,
       TN_SIG_ATTN_WINDOW = 1u << 1 /* of the last window_rows rows of the prompt */,
       TN_SIG_KNORM = 1u << 2 };
enum { TN_KEEP = 0, TN_DROP = 1, TN_DEMOTE = 2 };

typedef struct tn_evict_spec { /* filled by describe */
  uint32_t struct_size, kind, gran, signals;
  tn_mask mask;          /* POSITION: what stays visible */
  int64_t renumber;      /* POSITION: 0, or the cache size: sinks are attended from position min(i, renumber - 1) */
  uint32_t window_rows;  /* SIG_ATTN_WINDOW */
  uint32_t demotes;      /* 1: verdicts may be DEMOTE */
  uint32_t rank_rope;    /* SCORE: 1: keys are rotated by their rank (needs kv.raw/1) */
  uint32_t first_layer;  /* SCORE: layers below are left alone (not with rank_rope) */
} tn_evict_spec;

typedef struct tn_evict_when { /* in: a sequence; out: next, keep, full */
  uint32_t struct_size, reserved0;
  uint64_t seq;
  int64_t n_prompt, pos; /* tokens of the prompt (of a scored text: those before the first scored row); committed */
  int64_t next;          /* out: act when this many tokens are committed (> pos), or TN_POS_INF */
  int64_t keep;          /* out: entries to keep in each group when acting at pos; -1: nothing to do at pos */
  int64_t full;          /* out: so many of them, the best, as wide as they are, the others demoted; preset -1: all */
} tn_evict_when;

typedef struct tn_evict_unit { /* the entries of one group */
  uint32_t struct_size, group, layer, head; /* first layer and KV head of the group */
  int64_t n, keep;                          /* entries; how many to keep */
  const int64_t *pos;                       /* [n] text positions, -1: hole */
  const int64_t *attn, *window, *knorm;     /* [n] as declared, in tn_signal units; else NULL */
  float *score;                             /* out [n] finite; higher stays; ties: later position stays */
  uint8_t *verdict;                         /* out [n] or NULL; TN_DEMOTE asks for demotion of an entry that stays,
                                               TN_DROP forces a drop, TN_KEEP leaves it to the score (preset) */
} tn_evict_unit;

/* Tokens: needs attn.scores/1 kv.per_head/1 rope.renumber/1 kv.raw/1 kv.layouts/1 as used; provides
 * kv.history/1 when scores depend on history (then no prefix hits). */
typedef struct tn_eviction_v1 {
  uint32_t struct_size, reserved0;
  tn_status (*describe)(tn_inst *, const tn_plan *, tn_evict_spec *out, tn_err *);               /* [cold] */
  tn_status (*when)(tn_inst *, tn_evict_when *);                   /* [hot] SCORE only; a function of positions only */
  tn_status (*score)(tn_inst *, uint64_t seq, uint32_t n, const tn_evict_unit *const *units);    /* [hot] SCORE only */
} tn_eviction_v1;

/* ---------------------------------------------------------------- slot: quantizer */

typedef struct tn_tensor_info {
  uint32_t struct_size, role;
  const char *name;     /* "blk.3.ffn_down.weight" */
  int32_t layer;
  uint32_t dtype;       /* in the file */
  int64_t n, k;
} tn_tensor_info;

typedef struct tn_qblock { /* rows [row0, row0 + n_rows) of one tensor */
  uint32_t struct_size, reserved0;
  const tn_tensor_info *info;
  int64_t row0, n_rows;
  const float *w;        /* [n_rows][k] */
  const float *stats;    /* what calibrate asked for: HESSIAN [k][k], ABSMEAN [k]; else NULL */
  uint8_t *codes;        /* out [n_rows][k] */
  float *scale, *offset; /* out [n_rows][groups]; offset NULL for TN_OFF_NONE */
  uint8_t *sub_scale, *sub_offset;
  float *d, *dmin;       /* out, two-level */
} tn_qblock;

enum { TN_CAL_NONE = 0, TN_CAL_HESSIAN = 1 /* sum x x^T */, TN_CAL_ABSMEAN = 2, TN_CAL_ROWS = 3 /* observe() */ };

typedef struct tn_qpair { /* a producer whose output channels may be scaled, and the linears that read it (AWQ) */
  uint32_t struct_size, n_linears;
  const tn_tensor_info *producer; /* a norm weight or a linear's rows */
  const tn_tensor_info *const *linears;
} tn_qpair;

/* weights=: take() says which tensors and in what layout; encode() chooses values, [worker]. kv=: kv_layout().
 * Calibration runs the model block by block over text, each block fed by the already quantized prefix. */
typedef struct tn_quantizer_v1 {
  uint32_t struct_size, reserved0;
  /* TN_OK and *out (kept by the plugin for the instance's life): quantize. TN_E_UNSUPPORTED: leave as it is. [cold] */
  tn_status (*take)(tn_inst *, const tn_tensor_info *, const tn_layout **out, tn_err *);
  tn_status (*encode)(tn_inst *, const tn_layout *, const tn_qblock *);                              /* [worker] */
  /* Layouts of cached keys and values. NULL: not usable under kv=. [cold] */
  tn_status (*kv_layout)(tn_inst *, const tn_model_shape *, const tn_layout **k, const tn_layout **v, tn_err *);
  uint32_t (*calibrate)(tn_inst *, const tn_tensor_info *);            /* [cold] NULL: TN_CAL_NONE for all */
  tn_status (*observe)(tn_inst *, const tn_tensor_info *, const float *x, int64_t n);  /* [cold] TN_CAL_ROWS: [n][k] */
  /* Scales to fold into producer and linears before encoding: out [channels], 1: leave. NULL: none. [cold] */
  tn_status (*fold)(tn_inst *, const tn_qpair *, const float *absmean, float *out);
  /* EXOTIC layouts: [n_rows][k] back to f32. [worker] NULL when the layout is not exotic */
  tn_status (*dequantize)(tn_inst *, const tn_layout *, const tn_qblock *, float *w);
} tn_quantizer_v1;

/* ---------------------------------------------------------------- slot: draft */

enum { TN_Q_DELTA = 1 /* chosen, not drawn */, TN_Q_IID = 2, TN_Q_WOR = 3 /* without replacement */ };
enum { TN_TAP_POST_NORM = -1 };

typedef struct tn_draft_spec {
  uint32_t struct_size, max_nodes, max_depth, tree; /* tree 0: chains only */
  uint32_t q_kind, n_taps;
  const int32_t *taps; /* [n_taps] TN_TAP_POST_NORM, or layer whose output rows the drafter wants */
} tn_draft_spec;

typedef struct tn_draft_req {
  uint32_t struct_size, max_nodes;   /* never more than this many nodes */
  uint64_t seq, request;             /* request: key for the RNG */
  const int32_t *tokens;             /* [n] committed tokens and the pending one */
  int64_t n;
  double temperature;                /* 0: greedy */
} tn_draft_req;

typedef struct tn_draft_tree { /* out; arrays [max_nodes] are the host's, nodes in topological order */
  uint32_t struct_size, n;
  int32_t *token, *parent;           /* parent -1: child of the pending token */
  const float **q;                   /* [max_nodes] law each node was drawn from, [V]; the plugin's, until the next
                                        propose; NULL entries for TN_Q_DELTA */
} tn_draft_tree;

typedef struct tn_draft_outcome {
  uint32_t struct_size, n_path;
  uint64_t seq;
  const int32_t *path;               /* [n_path] accepted nodes, root to leaf */
  int32_t next;                      /* the token emitted after them, now pending */
  int32_t row0;                      /* row of the pending token in the taps; node i is row row0 + 1 + i */
  const tn_tensor *const *taps;      /* [n_taps]; valid until the next step */
} tn_draft_outcome;

typedef struct tn_draft_rows { /* tap rows of prompt tokens, as chunks are committed */
  uint32_t struct_size, n_rows;
  uint64_t seq;
  int64_t pos0;                      /* text position of row0 */
  int32_t row0;
  uint32_t n_taps;
  const tn_tensor *const *taps;
} tn_draft_rows;

/* Tokens: provides draft.tree/1 (with tree), draft.lossless/1 (q known); needs hidden.tap/1 run.range/1 as used. */
typedef struct tn_draft_v1 {
  uint32_t struct_size, reserved0;
  tn_status (*describe)(tn_inst *, const tn_plan *, tn_draft_spec *out, tn_err *);                        /* [cold] */
  tn_status (*propose)(tn_inst *, uint32_t n, const tn_draft_req *const *, tn_draft_tree *const *);       /* [hot] */
  tn_status (*outcome)(tn_inst *, uint32_t n, const tn_draft_outcome *const *); /* [hot] NULL: not interested */
  tn_status (*rows)(tn_inst *, const tn_draft_rows *);                          /* [hot] NULL: no taps */
} tn_draft_v1;

/* ---------------------------------------------------------------- slot: attention */

enum { TN_AT_MASK = 1, TN_AT_TILES = 2, TN_AT_STATE = 3 };

typedef struct tn_attn_spec {
  uint32_t struct_size, kind;
  tn_mask mask;               /* MASK (TILES: for tiles of kind MASK) */
  const tn_state_spec *state; /* STATE */
  float softcap, reserved0;   /* 0: the model's own */
} tn_attn_spec;

/* Who sees whom. Tokens: needs attn.tiles/1 or attn.state/1 as used; provides attn.untrained/1 where the model must
 * have been trained for it; conflicts kv.token_drop/1 where the pattern names evicted keys. */
typedef struct tn_attention_v1 {
  uint32_t struct_size, reserved0;
  tn_status (*describe)(tn_inst *, const tn_plan *, uint32_t layer, uint32_t kv_head, tn_attn_spec *out, tn_err *); /* [cold] */
  /* TILES: key tiles of query tile qtile (its last query is at text position last). A pure function. [hot] */
  tn_status (*tiles)(tn_inst *, uint32_t layer, uint32_t kv_head, int64_t qtile, int64_t last, tn_tile_list *out);
} tn_attention_v1;

/* ---------------------------------------------------------------- slot: position */

typedef struct tn_rope_query { /* what the model file says, for one class of layers */
  uint32_t struct_size, dims, cls, reserved0;
  double base;
  int64_t n_ctx_train, n_ctx_orig;      /* original context before scaling; equal where the file has none */
  const char *scaling;                  /* the file's word: "", "linear", "yarn", "longrope" */
  double factor, attn_factor, beta_fast, beta_slow; /* as in the file, 0 where absent */
  const float *factors_short, *factors_long; /* [dims/2] or NULL */
  int64_t regime;                       /* what regime() answered for the sequence */
} tn_rope_query;

typedef struct tn_rope_spec { /* out */
  uint32_t struct_size, reserved0;
  double mscale;      /* multiplies cos and sin; 1 for plain rotation */
  double *inv_freq;   /* [dims/2], the host's array: radians per position */
} tn_rope_spec;

/* Tokens: provides rope.stretch/1 where text beyond the trained context keeps its quality. The host reads an option
 * `factor` (F64, 0: the model file's) of such a plugin, to warn of a context that is longer than the stretched one. */
typedef struct tn_position_v1 {
  uint32_t struct_size, reserved0;
  tn_status (*table)(tn_inst *, const tn_rope_query *, tn_rope_spec *out, tn_err *); /* [cold] pure */
  /* Regime of a sequence of at most max_len tokens, fixed at admission; NULL: always 0. [hot] pure */
  int64_t (*regime)(tn_inst *, int64_t n_prompt, int64_t max_len);
} tn_position_v1;

/* ---------------------------------------------------------------- slot: scheduler */

enum { TN_SEQ_WAITING = 1, TN_SEQ_PREFILL = 2, TN_SEQ_DECODE = 3, TN_SEQ_SWAPPED = 4 };

typedef struct tn_sched_view { /* sequences in order of arrival, as arrays */
  uint32_t struct_size, n;
  uint64_t step;
  uint32_t max_rows, max_seqs;     /* of one step */
  uint32_t page_tokens, reserved0;
  int64_t free_tokens;             /* entries that free pages can hold in the scarcest group; TN_POS_INF: no limit */
  const uint64_t *seq;             /* [n] */
  const uint32_t *state;           /* [n] TN_SEQ_* */
  const int64_t *todo;             /* [n] tokens that could run now: prompt left; decode: 1 + drafted */
  const int64_t *held;             /* [n] committed entries */
  const int64_t *most;             /* [n] entries it may reach */
  const uint64_t *arrival_ns, *deadline_ns; /* [n]; deadline 0: none */
  const int32_t *priority;         /* [n] higher first */
} tn_sched_view;

enum { TN_PREEMPT_RECOMPUTE = 1, TN_PREEMPT_SWAP = 2 };

typedef struct tn_sched_plan { /* out; the host's arrays [view.n] */
  uint32_t struct_size, n_run, n_preempt, reserved0;
  uint32_t *run;      /* indices into the view, in batch order */
  uint32_t *tokens;   /* tokens each runs: 1 <= tokens <= todo */
  uint32_t *preempt;  /* indices to preempt before running */
  uint32_t *how;      /* TN_PREEMPT_* */
} tn_sched_plan;

typedef struct tn_scheduler_v1 {
  uint32_t struct_size, reserved0;
  tn_status (*plan)(tn_inst *, const tn_sched_view *, tn_sched_plan *);                             /* [hot] */
  /* Pages ran out for index `blocked` while reserving: which index gives way (may be `blocked`)? [hot] */
  tn_status (*victim)(tn_inst *, const tn_sched_view *, uint32_t blocked, uint32_t *index, uint32_t *how);
} tn_scheduler_v1;

/* ---------------------------------------------------------------- slot: parallel */

enum { TN_SHARD_COPY = 1, TN_SHARD_ROWS = 2 /* of outputs */, TN_SHARD_COLS = 3 /* of inputs */ };
enum { TN_SEQ_WHOLE = 0, TN_SEQ_RING = 1, TN_SEQ_ZIGZAG = 2, TN_SEQ_STRIPE = 3 };

typedef struct tn_par_plan { /* out: who computes what */
  uint32_t struct_size, world, rank, reserved0;
  uint32_t layer0, layer1;     /* this rank's layers (pipeline stages) */
  uint32_t head0, n_heads, kv_head0, n_kv_heads; /* this rank's heads */
  int64_t ff0, n_ff;           /* this rank's feed-forward channels */
  int64_t vocab0, n_vocab;     /* this rank's logits */
  uint32_t in_flight, sequence; /* steps in flight; TN_SEQ_* */
} tn_par_plan;

/* The host inserts the collectives that follow from the plan; the transport (threads, MPI, NCCL) is the host's. */
typedef struct tn_parallel_v1 {
  uint32_t struct_size, reserved0;
  uint32_t (*world)(tn_inst *);                                                                     /* [any] */
  tn_status (*plan)(tn_inst *, const tn_plan *, uint32_t rank, tn_par_plan *out, tn_err *);         /* [cold] */
} tn_parallel_v1;

/* ---------------------------------------------------------------- extensions any plugin may offer (tn_desc.ext) */

typedef struct tn_writer { /* append bytes to a saved state */
  uint32_t struct_size, reserved0;
  void *ctx;
  tn_status (*write)(void *ctx, const void *p, uint64_t n);
} tn_writer;

/* "tenon.sequence/1": per-sequence state and request-scoped options. */
typedef struct tn_ext_sequence {
  uint32_t struct_size, reserved0;
  tn_status (*begin)(tn_inst *, uint64_t seq, const tn_value *values);  /* [hot] values: as in create, overridden */
  void (*end)(tn_inst *, uint64_t seq);                                 /* [hot] */
  tn_status (*fork)(tn_inst *, uint64_t parent, uint64_t child);        /* [hot] */
  tn_status (*save)(tn_inst *, uint64_t seq, const tn_writer *);        /* [cold] */
  tn_status (*load)(tn_inst *, uint64_t seq, const void *p, uint64_t n, tn_err *); /* [cold] */
} tn_ext_sequence;

/* "tenon.kernel/1" (quantizer, attention, draft): a kernel for TN_OP_EXT on one named backend. */
typedef struct tn_ext_kernel {
  uint32_t struct_size, reserved0;
  const char *backend; /* "cpu" */
  tn_status (*run)(tn_inst *, const tn_op *, void *const *in, void *const *out, int64_t n_rows, void *stream); /* [hot] */
} tn_ext_kernel;

/* "tenon.train/1" (quantizer): vector-Jacobian products for quantization-aware training. */
typedef struct tn_ext_train {
  uint32_t struct_size, reserved0;
  tn_status (*fake_quant)(tn_inst *, const tn_tensor_info *, const float *w, const float *scale, float *out);
  tn_status (*vjp)(tn_inst *, const tn_tensor_info *, const float *w, const float *scale, const float *grad_out,
                   float *grad_w, float *grad_scale);
} tn_ext_train;

/* ---------------------------------------------------------------- descriptor, module, note */

enum { TN_SLOT_BACKEND = 1, TN_SLOT_MEMORY = 2, TN_SLOT_EVICTION = 3, TN_SLOT_QUANTIZER = 4, TN_SLOT_DRAFT = 5,
       TN_SLOT_ATTENTION = 6, TN_SLOT_POSITION = 7, TN_SLOT_SCHEDULER = 8, TN_SLOT_PARALLEL = 9 };
#define TN_SLOT_VERSION 1u /* every slot's vtable version today; they move apart later */
enum {
  TN_F_DETERMINISTIC = 1u << 0, /* the same input, the same bits */
  TN_F_EXACT = 1u << 1          /* the tokens are the baseline's (full attention, plain rope, f16 cache, no draft, one
                                 * rank) for every text and option, but for options that say TN_P_OUTPUT and are set */
};

typedef struct tn_desc {
  uint32_t struct_size, slot, slot_version, flags;
  const char *id;       /* "org.tenon.h2o": lower case, unique, never reused */
  const char *name;     /* "h2o": the word in the INI */
  const char *version;  /* "1.0.0" */
  const char *summary;  /* one line */
  /* Lists end with NULL; a NULL list is empty. */
  const char *const *provides, *const *needs, *const *conflicts; /* tokens "kv.token_drop/1" */
  const tn_param *const *params;
  const char *const *counters;      /* names; [0] counts engagements: 0 at the end means inert */
  /* What tokens cannot say (heads divide by ranks). Before any instance exists. Optional. [cold] */
  tn_status (*validate)(const tn_plan *, const tn_value *values, tn_err *);
  /* values[i] belongs to params[i]; strings live as long as the instance. On failure *out is NULL. [cold] */
  tn_status (*create)(const tn_host *, const tn_value *values, tn_inst **out, tn_err *);
  void (*destroy)(tn_inst *);                                                            /* [cold] */
  tn_status (*set)(tn_inst *, uint32_t param, const tn_value *, tn_err *);               /* [hot] optional */
  const void *(*ext)(tn_inst *, const char *id);                                         /* [any] optional */
  const void *vtable;                                                                    /* tn_<slot>_v1 */
} tn_desc;

typedef struct tn_module {
  uint32_t struct_size, abi_major, abi_minor, n_desc;
  const char *name, *version, *vendor, *license, *build;
  const tn_desc *const *desc; /* [n_desc] */
  void (*shutdown)(void);     /* [cold] optional */
} tn_module;

/* THE exported symbol. Idempotent, no I/O, no threads, no device. NULL: err says why. */
TN_EXPORT const tn_module *tn_module_v0(const tn_host *, tn_err *);
#define TN_ENTRY_SYMBOL "tn_module_v0"

/* Read from the file before dlopen, so that a wrong ABI or instruction set is refused before any code runs. */
typedef struct tn_note {
  uint32_t namesz, descsz, type;
  char name[4];
  uint32_t abi_major, abi_minor, abi_min_minor /* oldest host */, isa /* TN_ISA_* needed to load */, slot, reserved0;
  char id[64];
} tn_note;
enum { TN_ISA_BASE = 0, TN_ISA_AVX2 = 1, TN_ISA_AVX512 = 2 };
#define TN_NOTE_TYPE 1u
#define TN_NOTE(sym_, id_, slot_)                                                                                    \
  __attribute__((section(".note.tenon"), used, aligned(4))) static const tn_note tn_note_##sym_ = {                  \
    4, 88, TN_NOTE_TYPE, { 'T', 'E', 'N', 0 }, TN_ABI_MAJOR, TN_ABI_MINOR, TN_ABI_MINOR, TN_ISA_BASE, slot_, 0, id_ }

/* What a module says of its build, where it has nothing better: the compiler. */
#if defined(__clang__)
#define TN_BUILD __VERSION__
#else
#define TN_BUILD "gcc " __VERSION__
#endif

/* A module of one descriptor, its note and its entry, for the end of a plugin's file. desc_ is the tn_desc's name. */
#define TN_PLUGIN(name_, id_, slot_, version_, vendor_, license_, desc_)                                             \
  TN_NOTE(name_, id_, slot_);                                                                                        \
  static const tn_desc *const tn_descs_##name_[] = { &desc_ };                                                       \
  static const tn_module tn_module_##name_ = { sizeof(tn_module), TN_ABI_MAJOR, TN_ABI_MINOR, 1, #name_, version_,   \
                                               vendor_, license_, TN_BUILD, tn_descs_##name_, NULL };                \
  const tn_module *tn_module_v0(const tn_host *host, tn_err *err)                                                    \
  {                                                                                                                  \
    (void)host;                                                                                                      \
    (void)err;                                                                                                       \
    return &tn_module_##name_;                                                                                       \
  }                                                                                                                  \
  static_assert(sizeof(tn_module) == 72, "one module")

#ifdef __cplusplus
}
#endif
#endif
