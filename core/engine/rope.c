/* rope: see rope.h. */
#include "rope.h"

#include <math.h>
#include <stdlib.h>

#include "../host/trig.h"

struct tn_rope {
  const tn_model *model;
  const char *name;
  const tn_position_v1 *plugin;
  tn_inst *inst;
  uint32_t dims, n, cap;
  tn_rope_table **tables; /* [n] */
};

tn_status tn_rope_new(const tn_model *m, const tn_desc *plugin, tn_inst *inst, tn_rope **out, tn_err *err)
{
  *out = tn_zalloc(1, sizeof **out);
  if (!*out) return tn_fail(err, TN_E_NOMEM, "no memory for rope tables");
  **out =
      (tn_rope){.model = m, .name = plugin->name, .plugin = plugin->vtable, .inst = inst, .dims = m->shape.rope_dims};
  return TN_OK;
}

static void table_free(tn_rope_table *t)
{
  if (!t) return;
  free(t->inv_freq);
  free(t->mscale);
  free(t);
}

void tn_rope_free(tn_rope *r)
{
  if (!r) return;
  for (uint32_t i = 0; i < r->n; i++) table_free(r->tables[i]);
  free(r->tables);
  free(r);
}

int64_t tn_rope_regime(const tn_rope *r, int64_t n_prompt, int64_t max_len)
{
  return TN_CAN(r->plugin, regime) ? r->plugin->regime(r->inst, n_prompt, max_len) : 0;
}

uint32_t tn_rope_dims(const tn_rope *r) { return r->dims; }

const tn_model_shape *tn_rope_shape(const tn_rope *r) { return &r->model->shape; }

static tn_status fill(const tn_rope *r, tn_rope_table *t, tn_err *err)
{
  for (uint32_t c = 0; c < r->model->shape.n_classes; c++) {
    tn_rope_query q = r->model->rope[c];
    q.regime = t->regime;
    tn_rope_spec spec = {.struct_size = sizeof spec, .mscale = 1, .inv_freq = t->inv_freq + (size_t)c * (r->dims / 2)};
    tn_status st = r->plugin->table(r->inst, &q, &spec, err);
    if (st != TN_OK) {
      tn_err_prefix(err, "position/%s", r->name);
      return st;
    }
    for (uint32_t i = 0; i < r->dims / 2; i++)
      if (!isfinite(spec.inv_freq[i]) || fabs(spec.inv_freq[i]) > 64)
        return tn_fail(err, TN_E_INTERNAL, "position/%s: frequency %u of class %u is %g", r->name, i, c,
                       spec.inv_freq[i]);
    t->mscale[c] = spec.mscale;
  }
  return TN_OK;
}

tn_status tn_rope_table_for(tn_rope *r, int64_t regime, const tn_rope_table **out, tn_err *err)
{
  *out = NULL;
  for (uint32_t i = 0; i < r->n; i++)
    if (r->tables[i]->regime == regime) {
      *out = r->tables[i];
      return TN_OK;
    }
  if (r->n == r->cap) {
    uint32_t cap = r->cap ? r->cap * 2 : 4;
    tn_rope_table **grown = realloc(r->tables, cap * sizeof *grown);
    if (!grown) return tn_fail(err, TN_E_NOMEM, "no memory for rope tables");
    r->tables = grown;
    r->cap = cap;
  }
  tn_rope_table *t = tn_zalloc(1, sizeof *t);
  uint32_t classes = r->model->shape.n_classes;
  if (t) {
    t->regime = regime;
    t->inv_freq = tn_zalloc((size_t)classes * (r->dims / 2), sizeof *t->inv_freq);
    t->mscale = tn_zalloc(classes, sizeof *t->mscale);
  }
  tn_status st = t && t->inv_freq && t->mscale ? TN_OK : tn_fail(err, TN_E_NOMEM, "no memory for rope tables");
  if (st == TN_OK) st = fill(r, t, err);
  if (st != TN_OK) {
    table_free(t);
    return st;
  }
  r->tables[r->n++] = t;
  *out = t;
  return TN_OK;
}

void tn_rope_row(const tn_rope *r, const tn_rope_table *t, uint32_t cls, int64_t pos, float *cos_row, float *sin_row)
{
  uint32_t half = r->dims / 2;
  const double *inv = t->inv_freq + (size_t)cls * half;
  for (uint32_t i = 0; i < half; i++) {
    double s, c;
    tn_sincos((double)pos * inv[i], &s, &c);
    cos_row[i] = (float)(c * t->mscale[cls]);
    sin_row[i] = (float)(s * t->mscale[cls]);
  }
}
