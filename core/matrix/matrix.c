/* matrix: see matrix.h. */
#include "matrix/matrix_int.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "model/model.h"

typedef struct work {
  const tn_matrix_cfg *cfg;
  tn_matrix *m;
  tn_names backends;
  uint32_t n_vocab[TN_MATRIX_MODELS], n_kv_heads;
  float *reference[TN_MATRIX_MODELS]; /* [rows][V], shared with the runs */
  tn_matrix_outcome *shared;          /* [n_shared] */
  size_t n_shared, n_pairs, done;
  tn_matrix_run_args *runs; /* [n_shared] */
} work;

/* Outcomes lie in one array: of the default composition on each model, of each part on each model, of the pairs. */
static tn_matrix_outcome *reference_of(const work *w, size_t model) { return &w->shared[model]; }

static tn_matrix_outcome *alone_of(const work *w, size_t part, size_t model)
{
  return &w->shared[w->cfg->n_models * (1 + part) + model];
}

static tn_matrix_outcome *pair_of(const work *w, size_t pair)
{
  return &w->shared[w->cfg->n_models * (1 + w->m->n_parts) + pair];
}

static tn_status look_at_models(work *w, tn_err *err)
{
  tn_status st = TN_OK;
  if (w->cfg->n_models < 1 || w->cfg->n_models > TN_MATRIX_MODELS)
    return tn_fail(err, TN_E_ARG, "%zu models: give 1 to %d", w->cfg->n_models, TN_MATRIX_MODELS);
  for (size_t i = 0; st == TN_OK && i < w->cfg->n_models; i++) {
    tn_model *model = NULL;
    st = tn_model_open(w->cfg->models[i], NULL, NULL, &model, err);
    if (st != TN_OK) break;
    w->n_vocab[i] = model->shape.n_vocab;
    if (i == 0) w->n_kv_heads = model->shape.n_kv_heads;
    tn_model_close(model);
  }
  return st;
}

/* Ranks that a parallel plugin is asked for: the fewest that divide the KV heads. */
static uint32_t ranks(const work *w)
{
  uint32_t n = 2;
  while (n < w->n_kv_heads && w->n_kv_heads % n) n++;
  return n;
}

static void *share(size_t bytes, tn_err *err)
{
  void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p != MAP_FAILED) return p;
  tn_fail(err, TN_E_NOMEM, "no memory to share with the runs: %zu bytes: %s", bytes, strerror(errno));
  return NULL;
}

static size_t reference_bytes(const work *w, size_t model)
{
  return TN_MATRIX_ROWS * w->n_vocab[model] * sizeof(float);
}

static bool selected(const tn_matrix_cfg *cfg, const tn_matrix_part *a, const tn_matrix_part *b)
{
  return !cfg->only || strcmp(cfg->only, a->name) == 0 || strcmp(cfg->only, b->name) == 0;
}

/* Does the part run at all: it, or one that it is paired with, is wanted. */
static bool in_use(const work *w, size_t part)
{
  const tn_matrix_part *p = &w->m->parts[part];
  for (size_t i = 0; i < w->m->n_parts; i++)
    if ((i == part || strcmp(w->m->parts[i].key, p->key) != 0) && selected(w->cfg, p, &w->m->parts[i])) return true;
  return false;
}

static tn_status make_room(work *w, tn_err *err)
{
  tn_matrix *m = w->m;
  for (size_t a = 0; a < m->n_parts; a++)
    for (size_t b = a + 1; b < m->n_parts; b++)
      if (strcmp(m->parts[a].key, m->parts[b].key) != 0 && selected(w->cfg, &m->parts[a], &m->parts[b])) w->n_pairs++;
  w->n_shared = w->cfg->n_models * (1 + m->n_parts) + w->n_pairs;
  m->cells = tn_zalloc(m->n_parts + w->n_pairs, sizeof *m->cells);
  w->runs = tn_zalloc(w->n_shared, sizeof *w->runs);
  if (!m->cells || !w->runs) return tn_fail(err, TN_E_NOMEM, "no memory for %zu cells", w->n_shared);
  if (!(w->shared = share(w->n_shared * sizeof *w->shared, err))) return TN_E_NOMEM;
  for (size_t i = 0; i < w->cfg->n_models; i++)
    if (!(w->reference[i] = share(reference_bytes(w, i), err))) return TN_E_NOMEM;
  return TN_OK;
}

/* A run of parts a and b (NULL: none) on a model. */
static tn_matrix_run_args run_of(const work *w, const tn_matrix_part *a, const tn_matrix_part *b, size_t model,
                                 tn_matrix_outcome *out)
{
  return (tn_matrix_run_args){.cfg = w->cfg,
                              .model = w->cfg->models[model],
                              .a = a,
                              .b = b,
                              .backends = &w->backends,
                              .reference = w->reference[model],
                              .n_vocab = w->n_vocab[model],
                              .out = out};
}

/* The default composition on every model: what all others are compared with. */
static tn_status run_references(work *w, size_t planned, tn_err *err)
{
  size_t n = w->cfg->n_models;
  for (size_t i = 0; i < n; i++) {
    w->runs[i] = run_of(w, NULL, NULL, i, reference_of(w, i));
    w->runs[i].reference = NULL;
    w->runs[i].rows = w->reference[i];
  }
  tn_status st = tn_matrix_jobs(w->cfg, w->runs, n, &w->done, planned, err);
  for (size_t i = 0; st == TN_OK && i < n; i++)
    if (reference_of(w, i)->state != TN_RUN_DONE)
      st = tn_fail(err, TN_E_STATE, "%s: the default composition: %s", w->cfg->models[i], reference_of(w, i)->text);
  return st;
}

static tn_status run_alone(work *w, size_t planned, tn_err *err)
{
  size_t n = 0;
  for (size_t p = 0; p < w->m->n_parts; p++)
    for (size_t i = 0; !w->m->parts[p].problem && in_use(w, p) && i < w->cfg->n_models; i++)
      w->runs[n++] = run_of(w, &w->m->parts[p], NULL, i, alone_of(w, p, i));
  return tn_matrix_jobs(w->cfg, w->runs, n, &w->done, planned, err);
}

/* The first model that takes all of them alone; else the first. */
static uint32_t model_for(const work *w, size_t a, size_t b)
{
  for (uint32_t i = 0; i < w->cfg->n_models; i++)
    if (alone_of(w, a, i)->state != TN_RUN_REFUSED && alone_of(w, b, i)->state != TN_RUN_REFUSED) return i;
  return 0;
}

static tn_status run_pairs(work *w, size_t planned, tn_err *err)
{
  tn_matrix *m = w->m;
  size_t n = 0, pair = 0;
  for (size_t a = 0; a < m->n_parts; a++)
    for (size_t b = a + 1; b < m->n_parts; b++) {
      const tn_matrix_part *pa = &m->parts[a], *pb = &m->parts[b];
      if (strcmp(pa->key, pb->key) == 0 || !selected(w->cfg, pa, pb)) continue;
      tn_matrix_cell *c = &m->cells[m->n_cells++];
      *c = (tn_matrix_cell){.a = (uint32_t)a, .b = (uint32_t)b, .model = model_for(w, a, b)};
      if (!pa->problem && !pb->problem) w->runs[n++] = run_of(w, pa, pb, c->model, pair_of(w, pair));
      pair++;
    }
  return tn_matrix_jobs(w->cfg, w->runs, n, &w->done, planned, err);
}

static void judge(work *w, size_t first_pair)
{
  tn_matrix *m = w->m;
  for (size_t i = 0; i < first_pair; i++) {
    tn_matrix_cell *c = &m->cells[i];
    tn_matrix_judge_alone(m, alone_of(w, c->a, c->model), reference_of(w, c->model), c);
  }
  for (size_t i = first_pair; i < m->n_cells; i++) {
    tn_matrix_cell *c = &m->cells[i];
    const tn_matrix_outcome *const alone[] = {alone_of(w, c->a, c->model), alone_of(w, c->b, c->model)};
    tn_matrix_judge_pair(m, pair_of(w, i - first_pair), reference_of(w, c->model), alone, c);
  }
  for (size_t i = 0; i < m->n_cells; i++) m->counts[m->cells[i].kind]++;
}

static tn_status run_all(work *w, tn_err *err)
{
  tn_matrix *m = w->m;
  size_t planned = w->cfg->n_models + w->n_pairs, first_pair;
  for (size_t p = 0; p < m->n_parts; p++)
    if (in_use(w, p)) planned += w->cfg->n_models;
  tn_status st = run_references(w, planned, err);
  if (st == TN_OK) st = run_alone(w, planned, err);
  for (size_t p = 0; st == TN_OK && p < m->n_parts; p++)
    if (in_use(w, p))
      m->cells[m->n_cells++] = (tn_matrix_cell){.a = (uint32_t)p, .b = (uint32_t)p, .model = model_for(w, p, p)};
  first_pair = m->n_cells;
  if (st == TN_OK) st = run_pairs(w, planned, err);
  if (st == TN_OK) judge(w, first_pair);
  return st;
}

tn_status tn_matrix_run(const tn_matrix_cfg *cfg, tn_matrix *out, tn_err *err)
{
  work w = {.cfg = cfg, .m = out};
  *out = (tn_matrix){0};
  tn_status st = look_at_models(&w, err);
  if (st == TN_OK) st = tn_matrix_parts(cfg, ranks(&w), out, &w.backends, err);
  if (st == TN_OK) st = make_room(&w, err);
  if (st == TN_OK) st = run_all(&w, err);
  for (size_t i = 0; i < TN_MATRIX_MODELS; i++)
    if (w.reference[i]) munmap(w.reference[i], reference_bytes(&w, i));
  if (w.shared) munmap(w.shared, w.n_shared * sizeof *w.shared);
  free(w.runs);
  tn_names_free(&w.backends);
  if (st != TN_OK) tn_matrix_free(out);
  return st;
}

void tn_matrix_free(tn_matrix *m)
{
  for (size_t i = 0; i < m->n_parts; i++) {
    for (size_t k = 0; k < m->parts[i].n_sets; k++) free(m->parts[i].sets[k]);
    free(m->parts[i].sets);
    free(m->parts[i].name);
    free(m->parts[i].problem);
  }
  free(m->parts);
  free(m->cells);
  *m = (tn_matrix){0};
}
