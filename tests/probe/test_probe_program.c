/* What a composition may put into the program beside the model, on the engine: observers of every linear's input, and the
 * log-sum-exp of attention. Neither changes a bit of the logits; what they see is what a forward pass in double has, row
 * for row. On ref and cpu, on a model with windows, and on the device, whose calls back find the host's memory closed. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "probe_rig.h"
#include "support/naive.h"

enum { T = 30, LAYERS = 8, WIDEST = 512, CHUNK = 13 };

typedef struct series { /* rows of one linear's input, or of one layer's lse, in order */
  int64_t cols;
  uint32_t n;
  float rows[T][WIDEST];
} series;

typedef struct watcher {
  tn_setup *s;
  uint32_t calls;
  series *input; /* [LAYERS][TN_N_PARTS] */
  series *lse;   /* [LAYERS] */
  double worst;  /* error against the forward pass */
  uint64_t compared;
} watcher;

static series *input_of(const watcher *w, uint32_t layer, uint32_t part)
{
  cr_assert(layer < LAYERS && part < TN_N_PARTS);
  return &w->input[layer * TN_N_PARTS + part];
}

static tn_status take(const tn_rank *r, series *to, const tn_tensor *x, uint32_t n_rows)
{
  cr_assert(to->n + n_rows <= T && x->ne[0] <= WIDEST);
  to->cols = x->ne[0];
  tn_status st = TN_OK;
  for (uint32_t i = 0; st == TN_OK && i < n_rows; i++)
    st = r->b->download(r->backend.inst, x->buf, x->offset + i * (uint64_t)x->nb[1], to->rows[to->n++],
                        (uint64_t)x->ne[0] * sizeof(float));
  return st == TN_OK ? r->b->sync(r->backend.inst) : st;
}

/* The lse that the layer's attention has just left behind. */
static tn_status take_lse(const tn_rank *r, uint32_t layer, series *to, uint32_t n_rows)
{
  const tn_program *p = &r->built->program;
  char name[32];
  tn_tensor lse = {.struct_size = sizeof lse};
  snprintf(name, sizeof name, "blk.%u.attend", layer);
  for (uint32_t i = 0; i < p->n_ops; i++) {
    if (strcmp(p->ops[i]->name, name) != 0) continue;
    cr_assert(p->ops[i]->out[1] >= 0);
    tn_status st = r->b->act(r->backend.inst, r->prepared, (uint32_t)p->ops[i]->out[1], &lse);
    return st == TN_OK ? take(r, to, &lse, n_rows) : st;
  }
  return TN_E_ARG;
}

static tn_status watch(void *ctx, const tn_op *op, const tn_tensor *x, uint32_t n_rows)
{
  watcher *w = ctx;
  const tn_rank *r = &w->s->engine->exec->ranks[0];
  char name[64];
  w->calls++;
  for (uint32_t layer = 0; layer < LAYERS; layer++)
    for (uint32_t part = 0; part < TN_N_PARTS; part++) {
      snprintf(name, sizeof name, "blk.%u.%s.observe", layer, tn_part(part)->record);
      if (strcmp(op->name, name) != 0) continue;
      tn_status st = take(r, input_of(w, layer, part), x, n_rows);
      return st == TN_OK && part == TN_PART_ATTN_OUT ? take_lse(r, layer, &w->lse[layer], n_rows) : st;
    }
  return TN_E_ARG; /* a record of no known name */
}

/* ---------------------------------------------------------------- runs */

typedef struct told { /* logits of the scored prompt */
  float *rows;
  uint32_t n, n_vocab;
} told;

static void on_logits(void *ctx, uint64_t seq, void *user, int64_t pos, const float *row)
{
  told *t = ctx;
  (void)seq, (void)user;
  cr_assert_eq(pos, (int64_t)t->n);
  memcpy(t->rows + (size_t)t->n++ * t->n_vocab, row, t->n_vocab * sizeof *row);
}

static void run(const char *backend, const char *model, uint32_t build_flags, watcher *w, told *out)
{
  static tn_setup s;
  bool device = strcmp(backend, "device") == 0;
  char inner[300], compose[64], rows[32];
  snprintf(compose, sizeof compose, "compose.backend=%s", backend);
  snprintf(rows, sizeof rows, "engine.max_rows=%d", CHUNK);
  snprintf(inner, sizeof inner, "backend.device.inner=%s/lib/tenon/backend/ref.so", TN_BUILD_DIR);
  const char *const sets[] = {
      compose, "engine.activations=f32", rows, "engine.threads=1", "compose.kv=probe", "quantizer.probe@kv.kv=f32",
      inner};
  int32_t text[T];
  tn_err err = tn_err_init();
  tn_loader *loader;
  tn_loader_cfg cfg = {.path = TN_BUILD_DIR "/tests/plugins", .lib_dir = TN_BUILD_DIR "/lib/tenon"};
  cr_assert(tn_loader_new(&cfg, &loader, &err) == TN_OK, "%s", err.msg);
  tn_setup_args a = {.sets = sets,
                     .n_sets = TN_ARRAY_LEN(sets) - !device,
                     .model = rig_tiny(model),
                     .conf_dir = TN_SOURCE_DIR "/conf",
                     .loader = loader,
                     .events = {.ctx = out, .logits = on_logits},
                     .build_flags = build_flags,
                     .observe = watch,
                     .observe_ctx = w};
  w->s = &s;
  cr_assert(tn_setup_open(&a, &s, &err) == TN_OK, "%s", err.msg);
  out->n = w->calls = 0;
  out->n_vocab = s.model->shape.n_vocab;
  out->rows = calloc((size_t)T * out->n_vocab, sizeof *out->rows);
  rig_tokens(5, out->n_vocab, text, T);
  tn_request q = {.prompt = text, .n_prompt = T, .sampling = tn_sampling_default(), .score = 1};
  uint64_t seq;
  cr_assert(tn_engine_submit(s.engine, &q, &seq, &err) == TN_OK, "%s", err.msg);
  while (!tn_engine_idle(s.engine)) cr_assert(tn_engine_step(s.engine, &err) == TN_OK, "%s", err.msg);
  cr_assert_eq(out->n, T);
  tn_setup_close(&s);
  tn_loader_free(loader);
}

/* ---------------------------------------------------------------- the forward pass in double */

static void compare(watcher *w, double want, float have)
{
  w->worst = naive_worse(w->worst, fabs(want - (double)have) / fmax(1, fabs(want)));
  w->compared++;
}

static void on_input(void *ctx, uint32_t layer, uint32_t part, int64_t i, const double *row, int64_t k)
{
  watcher *w = ctx;
  if (!tn_part(part)->in_layer) return; /* the head has no observer */
  const series *s = input_of(w, layer, part);
  cr_assert_eq(s->cols, k);
  for (int64_t c = 0; c < k; c++) compare(w, row[c], s->rows[i][c]);
}

static void on_lse(void *ctx, uint32_t layer, uint32_t q_head, int64_t i, double lse)
{
  watcher *w = ctx;
  cr_assert_lt((int64_t)q_head, w->lse[layer].cols);
  compare(w, lse, w->lse[layer].rows[i][q_head]);
}

/* Every row of every series against its oracle; `at` says which hook. */
static void against_naive(const char *model, watcher *w, naive_hooks hooks, uint64_t want_compared)
{
  int32_t text[T];
  tn_err err = tn_err_init();
  tn_model *m;
  cr_assert(tn_model_open(rig_tiny(model), NULL, NULL, &m, &err) == TN_OK, "%s", err.msg);
  hooks.ctx = w;
  w->worst = 0, w->compared = 0;
  naive *x = naive_open(m, &hooks, T);
  rig_tokens(5, m->shape.n_vocab, text, T);
  for (int64_t i = 0; i < T; i++) naive_push(x, text[i]);
  cr_assert(w->worst < 1e-4, "off by %g", w->worst);
  cr_assert_eq(w->compared, want_compared);
  naive_close(x);
  tn_model_close(m);
}

static void observed(const char *backend, const char *model)
{
  told plain = {0}, seen = {0};
  watcher w = {.input = calloc(LAYERS * TN_N_PARTS, sizeof *w.input), .lse = calloc(LAYERS, sizeof *w.lse)};
  cr_assert(w.input && w.lse);
  run(backend, model, 0, &w, &plain);
  cr_assert_eq(w.calls, 0);
  run(backend, model, TN_BUILD_OBSERVE_ALL | TN_BUILD_LSE, &w, &seen);
  cr_assert(memcmp(plain.rows, seen.rows, (size_t)T * plain.n_vocab * sizeof(float)) == 0,
            "observers changed the logits");
  uint32_t n_series = 0, chunks = (T + CHUNK - 1) / CHUNK, layers = 0;
  uint64_t values = 0, lses = 0;
  for (uint32_t i = 0; i < LAYERS * TN_N_PARTS; i++) {
    if (w.input[i].n == 0) continue;
    cr_assert_eq(w.input[i].n, T);
    n_series++;
    values += (uint64_t)w.input[i].cols * T;
  }
  for (uint32_t l = 0; l < LAYERS; l++) lses += (uint64_t)w.lse[l].cols * T, layers += w.lse[l].n > 0;
  cr_assert(layers > 0 && n_series == 7 * layers, "seven linears a layer have an observer");
  cr_assert_eq(w.calls, n_series * chunks);
  against_naive(model, &w, (naive_hooks){.input = on_input}, values);
  against_naive(model, &w, (naive_hooks){.lse = on_lse}, lses);
  free(plain.rows);
  free(seen.rows);
  free(w.input);
  free(w.lse);
}
Test(probe_program, observers_and_lse) { observed("ref", "llama"); }
Test(probe_program, observers_and_lse_windows) { observed("ref", "gemma3"); }
Test(probe_program, observers_and_lse_cpu) { observed("cpu", "gemma3"); }
Test(probe_program, observers_and_lse_on_the_device) { observed("device", "llama"); }
