/* builder: see builder.h. */
#include "builder.h"

#include <stdlib.h>
#include <string.h>

#include "builder_int.h"

static void check_taps(tn_maker *b)
{
  for (uint32_t i = 0; i < b->in->n_taps; i++) {
    int32_t t = b->in->taps[i];
    if (t != TN_TAP_POST_NORM && (t < 0 || (uint32_t)t >= b->m->shape.n_layers))
      tn_mk_fail(b, TN_E_ARG, "tap %u wants the rows of layer %d, the model has %u layers", i, t, b->m->shape.n_layers);
  }
}

/* Did every weight that should be observed turn up as a linear's? */
static void check_observed(tn_maker *b)
{
  const tn_built_own *own = b->out;
  for (uint32_t i = 0; i < b->in->n_observe && !b->st; i++) {
    bool found = false;
    for (uint32_t o = 0; o < own->b.n_observed && !found; o++)
      found = strcmp(own->needs[own->observed[o]].name, b->in->observe[i]) == 0;
    if (!found)
      tn_mk_fail(b, TN_E_ARG, "'%s' is to be observed, but no linear of this program has a weight of that name",
                 b->in->observe[i]);
  }
}

/* The model, top to bottom. */
static void build(tn_maker *b)
{
  const tn_par_plan *par = &b->par;
  b->layer = -1;
  int32_t x = tn_mk_embedding(b);
  for (uint32_t l = par->layer0; l < par->layer1 && !b->st; l++) {
    b->layer = (int32_t)l;
    int32_t y = tn_mk_attention(b, x);
    x = tn_mk_feed_forward(b, y);
    tn_mk_taps(b, b->layer, x);
  }
  b->layer = -1;
  tn_mk_head(b, x);
}

/* Hands the arrays to the program. */
static void finish(tn_maker *b)
{
  tn_built_own *own = b->out;
  tn_program *g = &own->b.program;
  const tn_model_shape *s = &b->m->shape;
  own->weights = tn_zalloc(g->n_weights, sizeof *own->weights);
  own->table_dims = tn_zalloc(s->n_classes, sizeof *own->table_dims);
  if (!own->weights || !own->table_dims) {
    tn_mk_fail(b, TN_E_NOMEM, "no memory for the program");
    return;
  }
  for (uint32_t c = 0; c < s->n_classes; c++) own->table_dims[c] = s->rope_dims;
  g->struct_size = sizeof *g;
  g->n_tables = s->n_classes;
  g->n_kv_heads = s->n_kv_heads;
  g->ops = (const tn_op *const *)own->ops;
  g->acts = (const tn_act *const *)own->acts;
  g->weights = own->weights;
  g->groups = own->groups;
  g->masks = own->masks;
  g->table_dims = own->table_dims;
  own->b.needs = own->needs;
  own->b.observed = own->observed;
  own->b.tile_layers = own->tile_layers;
}

tn_status tn_program_build(const tn_build *in, tn_built **out, tn_err *err)
{
  tn_maker b = {.in = in, .m = in->model, .err = err};
  *out = NULL;
  for (size_t i = 0; i < TN_N_ACTS; i++) b.act[i] = -1;
  b.par = in->par ? *in->par : tn_par_whole(in->model);
  b.st = tn_par_check(b.m, &b.par, err);
  if (b.st) return b.st;
  b.out = tn_zalloc(1, sizeof *b.out);
  if (!b.out) return tn_fail(err, TN_E_NOMEM, "%s: no memory for the program", tn_gguf_path(b.m->gguf));
  check_taps(&b);
  if (!b.st) tn_mk_groups(&b);
  if (!b.st) tn_mk_check_specs(&b);
  if (!b.st) tn_mk_tile_sets(&b);
  if (!b.st) build(&b);
  if (!b.st) check_observed(&b);
  if (!b.st) finish(&b);
  free(b.group_of);
  if (b.st)
    tn_built_own_free(b.out);
  else
    *out = &b.out->b;
  return b.st;
}

void tn_built_free(tn_built *t)
{
  if (t) tn_built_own_free((tn_built_own *)(void *)t); /* b is its first member */
}

bool tn_built_find(const tn_built *t, const char *name, uint32_t *index)
{
  for (uint32_t i = 0; i < t->program.n_ops; i++) {
    if (strcmp(t->program.ops[i]->name, name) != 0) continue;
    *index = i;
    return true;
  }
  return false;
}
