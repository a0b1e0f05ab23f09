/* Fused records of the cpu backend: the same bits as record by record, for every architecture, number of rows and of threads,
 * instruction set and kind of activations, with taps and observers between the records and ranges that cut them; and that
 * records are fused at all. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/isa.h"
#include "support/golden_logits.h"
#include "support/mini_forward.h"
#include "support/tiny_model.h"

enum { N = 74, MAX_D = 128, MAX_V = 512, MAX_FF = 512 };
enum { N_RECORDS = 1, N_FUSED = 4 }; /* counters */

typedef struct fuse_case {
  uint32_t threads, prepare, tokens, chunk, most_records;
  int isa;
  bool fuse, taps, observe;
} fuse_case;

typedef struct result {
  float logits[N * MAX_V], tap[2][N * MAX_D];
  uint64_t observed;       /* a sum over all numbers that observers saw */
  uint64_t records, fused; /* counters */
} result;

static result first, other;

static tn_model *open_model(const char *name)
{
  char path[512];
  tn_err err = tn_err_init();
  tn_model *m = NULL;
  golden_path(name, ".gguf", path, sizeof path);
  cr_assert(tn_model_open(path, NULL, NULL, &m, &err) == TN_OK, "%s", err.msg);
  cr_assert(le(u32, m->shape.n_vocab, MAX_V));
  cr_assert(le(u32, m->shape.d_model, MAX_D));
  return m;
}

typedef struct watch {
  const backend *b;
  uint64_t sum;
} watch;

/* Adds up the bits of each number, turned by where it is: a sum that no order of the rows changes. */
static tn_status observe(void *ctx, const tn_op *op, const tn_tensor *x, uint32_t n_rows)
{
  static float row[MAX_FF];
  watch *w = ctx;
  for (uint32_t r = 0; r < n_rows; r++) {
    const uint64_t at = x->offset + r * (uint64_t)x->nb[1];
    tn_status st = w->b->v->download(w->b->inst, x->buf, at, row, (uint64_t)x->ne[0] * sizeof *row);
    if (st) return st;
    for (int64_t i = 0; i < x->ne[0]; i++) {
      uint32_t bits;
      memcpy(&bits, &row[i], sizeof bits);
      w->sum += (bits ^ (uint64_t)i * 977) * (2 * op->p.tap.index + 1) * 0x9e3779b97f4a7c15ull;
    }
  }
  return TN_OK;
}

static void run(const tn_model *m, const fuse_case *c, result *out)
{
  static const int32_t taps[2] = {0, TN_TAP_POST_NORM};
  const uint32_t v = m->shape.n_vocab, d = m->shape.d_model;
  int32_t tokens[N];
  tn_err err = tn_err_init();
  const tn_value values[] = {{.type = TN_T_ENUM, .v = {.i = 1 + c->isa}}, {.type = TN_T_BOOL, .v = {.i = c->fuse}}};
  backend *b = backend_open("cpu", c->threads, values, &err);
  cr_assert(b != NULL, "%s", err.msg);
  watch w = {b, 0};
  const mini_cfg cfg = {
      .backend = b,
      .model = m,
      .build = {.taps = taps, .n_taps = c->taps ? 2 : 0, .flags = c->observe ? TN_BUILD_OBSERVE_ALL : 0},
      .kv_dtype = TN_DT_F16,
      .max_tokens = N,
      .most_records = c->most_records,
      .prepare = c->prepare,
      .observe = observe,
      .observe_ctx = &w};
  mini_forward *f = mini_open(&cfg, &err);
  cr_assert(f != NULL, "%s", err.msg);
  for (int i = 0; i < N; i++) tokens[i] = (i * 37 + 11) % (int32_t)v;
  for (uint32_t at = 0, n; at < c->tokens; at += n) {
    n = at + c->chunk < c->tokens ? c->chunk : c->tokens - at;
    cr_assert(eq(i32, mini_run(f, tokens + at, n, out->logits + at * v), TN_OK));
    for (uint32_t i = 0; i < cfg.build.n_taps; i++) {
      cr_assert(eq(i32, mini_tap(f, i, n, out->tap[i] + at * d), TN_OK));
    }
  }
  out->observed = w.sum;
  out->records = backend_counter(b, N_RECORDS);
  out->fused = backend_counter(b, N_FUSED);
  mini_close(f);
  cr_assert(eq(u64, backend_close(b), 0));
}

static void expect_same(const tn_model *m, const fuse_case *c, uint32_t index)
{
  run(m, c, &other);
  const size_t rows = c->tokens * sizeof(float);
  cr_assert(eq(i32, memcmp(first.logits, other.logits, rows * m->shape.n_vocab), 0), "case %u", index);
  for (int i = 0; c->taps && i < 2; i++) {
    cr_assert(eq(i32, memcmp(first.tap[i], other.tap[i], rows * m->shape.d_model), 0), "case %u, tap %d", index, i);
  }
  if (c->observe && c->tokens == N) cr_assert(eq(u64, first.observed, other.observed), "case %u", index);
  cr_assert(eq(i32, other.fused > 0, c->fuse && c->most_records != 1), "case %u", index);
}

/* All cases of a model with one kind of activations against record by record on one thread in plain C. */
static void same_bits(const tn_model *m, uint32_t prepare)
{
  static const uint32_t chunks[] = {1, 3, 8, 70}, tokens[] = {9, 20, N, N};
  fuse_case c = {.threads = 1, .tokens = N, .chunk = 70, .prepare = prepare | TN_PREP_UNFUSED};
  c.isa = TNK_ISA_SCALAR;
  c.taps = c.observe = true;
  run(m, &c, &first);
  for (uint32_t i = 0; i < N * m->shape.n_vocab; i++) cr_assert(isfinite(first.logits[i]));
  cr_assert(ne(u64, first.observed, 0));
  uint32_t n = 0;
  for (int isa = 0; isa < TNK_ISA_COUNT; isa++) {
    const uint32_t cases = isa == tnk_isa_best() ? 12 : 4;
    for (uint32_t i = 0; tnk_isa_runs(isa) && i < cases; i++, n++) {
      c = (fuse_case){.threads = 1 + n % 3, .prepare = prepare, .isa = isa};
      c.tokens = tokens[i % 4];
      c.chunk = chunks[i % 4];
      c.fuse = n % 7 != 6;
      c.taps = n % 2;
      c.observe = n % 5 == 2;
      c.most_records = n % 3 ? 0 : 1 + n % 23;
      expect_same(m, &c, n);
    }
  }
}

static void file_same_bits(const char *name)
{
  tn_model *m = open_model(name);
  same_bits(m, 0);
  same_bits(m, TN_PREP_ACT_INT8);
  tn_model_close(m);
}

/* Models of codes: those of files are floating point. */
static void codes_same_bits(const tiny_spec *spec)
{
  void *bytes;
  tn_model *m = tiny_open(spec, &bytes);
  same_bits(m, 0);
  same_bits(m, TN_PREP_ACT_INT8);
  tn_model_close(m);
  free(bytes);
}

#define SAME(name, model) \
  Test(cpu_fuse, name) { file_same_bits(model); }
SAME(llama, "llama")
SAME(llama_tied, "llama-tied")
SAME(llama_yarn, "llama-yarn")
SAME(qwen2, "qwen2")
SAME(qwen3, "qwen3")
SAME(gemma3, "gemma3")

#define CODES(name, ...)                         \
  Test(cpu_fuse, name##_codes)                   \
  {                                              \
    static const tiny_spec spec = {__VA_ARGS__}; \
    codes_same_bits(&spec);                      \
  }
CODES(llama, .arch = "llama", .heads = 6, .kv_heads = 2, .dh = 32, .d = 96, .ff = 192, .dtype = TN_DT_Q4_0)
CODES(qwen2, .arch = "qwen2", .layers = 2, .heads = 4, .kv_heads = 2, .dh = 32, .ff = 96, .dtype = TN_DT_Q8_0,
      .biases = true)
CODES(qwen3, .arch = "qwen3", .layers = 2, .heads = 4, .kv_heads = 4, .dh = 16, .dtype = TN_DT_Q4_0)
CODES(gemma3, .arch = "gemma3", .layers = 7, .heads = 4, .kv_heads = 1, .dh = 32, .ff = 160, .window = 24,
      .dtype = TN_DT_Q8_0)

/* Nearly all records run in units with others, unless the option or the flag says no, or each one is asked for alone. */
Test(cpu_fuse, counts)
{
  static const char *const names[] = {"llama", "qwen2", "qwen3", "gemma3"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    tn_model *m = open_model(names[i]);
    fuse_case c = {.threads = 1, .tokens = 16, .chunk = 8, .prepare = TN_PREP_ACT_INT8, .fuse = true};
    run(m, &c, &first);
    cr_assert(gt(u64, first.fused * 10, first.records * 7), "%s: %d of %d", names[i], (int)first.fused,
              (int)first.records);
    c.most_records = 1;
    run(m, &c, &first);
    cr_assert(eq(u64, first.fused, 0));
    c.most_records = 0;
    c.fuse = false;
    run(m, &c, &first);
    cr_assert(eq(u64, first.fused, 0));
    c.fuse = true;
    c.prepare |= TN_PREP_UNFUSED;
    run(m, &c, &first);
    cr_assert(eq(u64, first.fused, 0));
    tn_model_close(m);
  }
}
