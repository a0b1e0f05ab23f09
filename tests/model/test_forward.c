/* forward: what holds for whole programs on the reference backend: chunks, ranks and stages change no bit; taps and
 * observers see the rows they should; raw keys and plain windows give what they mean. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/mini_forward.h"
#include "support/tiny_model.h"

enum { N = 40, V = 96, D = 64 };

static void *bytes;
static tn_model *m;
static backend *ref;

static void start(const tiny_spec *spec)
{
  tn_err err = tn_err_init();
  m = tiny_open(spec, &bytes);
  ref = backend_open("ref", 1, NULL, &err);
  cr_assert(ref != NULL, "%s", err.msg);
}

static void finish(void)
{
  cr_expect(eq(u64, backend_close(ref), 0), "the backend leaves memory behind");
  tn_model_close(m);
  free(bytes);
}

static mini_cfg config(void) { return (mini_cfg){.backend = ref, .model = m, .kv_dtype = TN_DT_F16, .max_tokens = 64}; }

static mini_forward *must_open(const mini_cfg *cfg)
{
  tn_err err = tn_err_init();
  mini_forward *f = mini_open(cfg, &err);
  cr_assert(f != NULL, "%s", err.msg);
  return f;
}

static const int32_t *prompt(void)
{
  static int32_t tokens[N];
  for (int i = 0; i < N; i++) tokens[i] = (i * 37 + 11) % V;
  return tokens;
}

/* Logits [N][V] of the prompt in chunks of size. The caller frees. */
static float *logits_in(mini_forward *f, uint32_t size)
{
  float *out = calloc(N * V, sizeof *out);
  mini_restart(f);
  for (uint32_t at = 0; at < N; at += size) {
    uint32_t n = at + size < N ? size : N - at;
    cr_assert(out && mini_run(f, prompt() + at, n, out + at * V) == TN_OK);
  }
  return out;
}

static float *logits_of(const mini_cfg *cfg)
{
  mini_forward *f = must_open(cfg);
  float *out = logits_in(f, N);
  mini_close(f);
  return out;
}

/* Takes both over. */
static void expect_same_bits(float *a, float *b, const char *what)
{
  bool finite = true;
  for (int i = 0; i < N * V; i++) finite = finite && isfinite(a[i]);
  cr_expect(finite, "%s", what);
  cr_expect(memcmp(a, b, N * V * sizeof *a) == 0, "%s", what);
  free(a);
  free(b);
}

static float widest_difference(const float *a, const float *b, float *scale)
{
  float d = 0;
  *scale = 0;
  for (int i = 0; i < N * V; i++) {
    d = fmaxf(d, fabsf(a[i] - b[i]));
    *scale = fmaxf(*scale, fabsf(a[i]));
  }
  return d;
}

static const char *const archs[] = {"llama", "qwen2", "qwen3", "gemma3"};

Test(forward, chunks_change_no_bit)
{
  for (size_t i = 0; i < TN_ARRAY_LEN(archs); i++) {
    start(&(tiny_spec){.arch = archs[i], .layers = 7, .window = 8});
    mini_cfg cfg = config();
    mini_forward *f = must_open(&cfg);
    expect_same_bits(logits_in(f, N), logits_in(f, 1), archs[i]);
    expect_same_bits(logits_in(f, 7), logits_in(f, 32), archs[i]);
    mini_close(f);
    finish();
  }
}

Test(forward, ranks_change_no_bit)
{
  static const uint32_t dtypes[2] = {TN_DT_F32, TN_DT_Q8_0};
  for (int d = 0; d < 2; d++) {
    start(&(tiny_spec){.arch = "qwen2", .dh = 32, .heads = 8, .kv_heads = 4, .ff = 256, .dtype = dtypes[d]});
    mini_cfg cfg = config();
    for (uint32_t world = 2; world <= 4; world *= 2) {
      tn_par_plan pars[4];
      for (uint32_t r = 0; r < world; r++) {
        tn_par_plan *p = &pars[r];
        *p = tn_par_whole(m);
        p->world = world, p->rank = r;
        p->n_heads = 8 / world, p->head0 = r * p->n_heads;
        p->n_kv_heads = 4 / world, p->kv_head0 = r * p->n_kv_heads;
        p->n_ff = 256 / world, p->ff0 = r * p->n_ff;
        p->n_vocab = r ? V / 2 / (world - 1) : V / 2;
        p->vocab0 = r ? V / 2 + (r - 1) * p->n_vocab : 0;
      }
      mini_cfg split = cfg;
      split.pars = pars;
      split.world = world;
      expect_same_bits(logits_of(&cfg), logits_of(&split), "ranks");
    }
    finish();
  }
}

Test(forward, stages_change_no_bit)
{
  start(&(tiny_spec){.arch = "gemma3", .layers = 7, .window = 8});
  mini_cfg cfg = config(), split = cfg;
  tn_par_plan pars[3];
  for (uint32_t r = 0; r < 3; r++) {
    pars[r] = tn_par_whole(m);
    pars[r].world = 3, pars[r].rank = r;
    pars[r].layer0 = r * 2, pars[r].layer1 = r == 2 ? 7 : r * 2 + 2;
  }
  split.pars = pars;
  split.world = 3;
  expect_same_bits(logits_of(&cfg), logits_of(&split), "stages");
  finish();
}

/* A window as the variant's mask is the window of the model. */
Test(forward, a_window_is_a_window)
{
  start(&(tiny_spec){.arch = "gemma3", .layers = 4, .window = 8});
  mini_cfg cfg = config();
  float *model_window = logits_of(&cfg);
  finish();

  tn_err err = tn_err_init();
  gguf_writer *w = tiny_writer(&(tiny_spec){.arch = "gemma3", .layers = 4});
  gguf_put_f32(w, "gemma3.rope.freq_base", 10000);
  m = tiny_open_writer(w, &bytes, &err);
  ref = backend_open("ref", 1, NULL, &err);
  cr_assert(m != NULL && ref != NULL, "%s", err.msg);
  static const tn_attn_spec eight = {.struct_size = sizeof eight, .kind = TN_AT_MASK, .mask = {0, 8, 1, 0, 0}};
  const tn_attn_spec *specs[8] = {&eight, &eight, &eight, &eight, &eight, &eight, &eight, &eight};
  cfg = config();
  float *full = logits_of(&cfg), scale;
  cfg.build.attn = specs;
  float *variant = logits_of(&cfg);
  cr_expect(widest_difference(full, variant, &scale) > 0.01f * scale, "the window hides nothing");
  free(full);
  expect_same_bits(model_window, variant, "window");
  finish();
}

/* Heads of different kinds in one layer: the heads' own columns, so a mask on one head leaves the other's alone. */
Test(forward, runs_of_heads_are_one_layer)
{
  static const tn_attn_spec a = {.struct_size = sizeof a, .kind = TN_AT_MASK, .mask = TN_MASK_ALL};
  static const tn_attn_spec b = {.struct_size = sizeof b, .kind = TN_AT_MASK, .mask = {0, TN_POS_INF - 1, 1, 0, 0}};
  const tn_attn_spec *specs[6] = {&a, &b, &b, &a, &a, &a}; /* b hides nothing, but is another spec */
  start(&(tiny_spec){0});
  mini_cfg cfg = config(), mixed = cfg;
  mixed.build.attn = specs;
  expect_same_bits(logits_of(&cfg), logits_of(&mixed), "runs");
  finish();
}

Test(forward, raw_keys_are_rotated_keys)
{
  start(&(tiny_spec){.arch = "qwen3"});
  mini_cfg cfg = config(), raw = cfg;
  cfg.kv_dtype = raw.kv_dtype = TN_DT_F32;
  raw.keys = TN_KEYS_RAW;
  float *x = logits_of(&cfg), *y = logits_of(&raw), scale;
  cr_expect(widest_difference(x, y, &scale) < 1e-5f * scale);
  free(x);
  free(y);
  finish();
}

/* Sink queries stand still: within the cache size they are the plain ones; beyond it they are not. */
Test(forward, sink_queries)
{
  tn_evict_spec e = {.struct_size = sizeof e, .kind = TN_EV_POSITION, .mask = {0, 60, 1, 0, 4}, .renumber = 64};
  start(&(tiny_spec){0});
  mini_cfg cfg = config(), sinks = cfg;
  sinks.build.evict = &e;
  expect_same_bits(logits_of(&cfg), logits_of(&sinks), "sinks");
  e.mask.hi = 12;
  e.renumber = 0;
  float *text = logits_of(&sinks), *moved, scale;
  e.renumber = 16;
  moved = logits_of(&sinks);
  cr_expect(memcmp(text, moved, 16 * V * sizeof *text) == 0);
  cr_expect(widest_difference(text, moved, &scale) > 1e-3f * scale);
  free(text);
  free(moved);
  finish();
}

typedef struct seen {
  const mini_forward *f;
  uint32_t calls, rows;
  float first[D]; /* first row of the first observed linear */
} seen;

static tn_status on_observe(void *ctx, const tn_op *op, const tn_tensor *x, uint32_t n_rows)
{
  seen *s = ctx;
  cr_expect(eq(u32, op->p.tap.index, s->calls));
  if (s->calls++ == 0) ref->v->download(ref->inst, x->buf, x->offset, s->first, sizeof s->first);
  s->rows += n_rows;
  return TN_OK;
}

/* Taps hold the rows that go into the next layer, and the normed rows that give the logits. */
Test(forward, taps_and_observers)
{
  static const int32_t taps[2] = {0, TN_TAP_POST_NORM};
  static const char *const names[2] = {"blk.1.attn_q.weight", "token_embd.weight"};
  seen s = {0};
  float *rows = calloc(N * D, sizeof *rows);
  start(&(tiny_spec){.layers = 2});
  mini_cfg plain = config(), cfg = plain;
  cfg.build.taps = taps;
  cfg.build.n_taps = 2;
  cfg.build.observe = names;
  cfg.build.n_observe = 2;
  cfg.observe = on_observe;
  cfg.observe_ctx = &s;
  mini_forward *f = must_open(&cfg);
  float *logits = logits_in(f, N);
  cr_expect(eq(u32, s.calls, 2));
  cr_expect(eq(u32, s.rows, 2 * N));

  cr_assert(rows && mini_tap(f, 0, N, rows) == TN_OK);
  const float *norm = (const float *)(const void *)tn_model_tensor(m, TN_PART_ATTN_NORM, 1)->data;
  double ss = 0;
  for (int c = 0; c < D; c++) ss += (double)rows[c] * (double)rows[c];
  for (int c = 0; c < D; c++) {
    double want = (double)rows[c] / sqrt(ss / D + m->norm_eps) * (double)norm[c];
    cr_expect(epsilon_eq(dbl, (double)s.first[c], want, 1e-5));
  }

  cr_assert(mini_tap(f, 1, N, rows) == TN_OK);
  const float *head = (const float *)(const void *)tn_model_tensor(m, TN_PART_TOKEN_EMBD, 0)->data;
  for (int v = 0; v < V; v += 19) {
    double want = 0;
    for (int c = 0; c < D; c++) want += (double)rows[(N - 1) * D + c] * (double)head[v * D + c];
    cr_expect(epsilon_eq(dbl, (double)logits[(N - 1) * V + v], want, 1e-4));
  }
  expect_same_bits(logits, logits_of(&plain), "taps change nothing");
  mini_close(f);
  free(rows);
  finish();
}
