/* plan: the composition as plugins see it, before any instance exists. */
#include <string.h>

#include "compose/compose_int.h"
#include "config/param.h"

/* The whole number in a part's option, or otherwise. */
static uint32_t number(const tn_choice *p, const char *option, uint32_t otherwise)
{
  int64_t x = otherwise;
  for (uint32_t i = 0; i < p->options.n; i++) {
    const tn_param *row = p->options.params[i];
    const tn_value *v = &p->options.values[i];
    if (strcmp(row->key, option) != 0) continue;
    if (row->type == TN_T_I64) x = v->v.i;
    if (row->type == TN_T_ENUM && v->v.i >= 0 && v->v.i < row->n_choices)
      tn_text_i64(row->choices[v->v.i], strlen(row->choices[v->v.i]), &x);
  }
  return x > 0 && x <= UINT32_MAX ? (uint32_t)x : otherwise;
}

void tn_plan_fill(const tn_stack *s, tn_plan_store *out)
{
  const tn_model_shape *shape = s->model ? s->model->shape : NULL;
  tn_plan *plan = &out->plan;
  *plan = (tn_plan){.struct_size = sizeof *plan,
                    .n_parts = s->n,
                    .world = 1,
                    .page_tokens = TN_PLAN_PAGE_TOKENS,
                    .max_ctx = s->engine->values[TN_ENGINE_CTX].v.i,
                    .model = shape,
                    .parts = out->list};
  if (plan->max_ctx == 0 && shape)
    plan->max_ctx = shape->n_ctx_train < TN_PLAN_CTX_MAX ? shape->n_ctx_train : TN_PLAN_CTX_MAX;
  for (uint32_t i = 0; i < s->n; i++) {
    const tn_choice *p = &s->part[i];
    out->part[i] = (tn_plan_part){
        .struct_size = sizeof out->part[i], .slot = p->slot, .key = p->key, .name = p->desc->name, .id = p->desc->id};
    out->list[i] = &out->part[i];
    if (p->slot == TN_SLOT_MEMORY) plan->page_tokens = number(p, "page_tokens", plan->page_tokens);
    if (p->slot == TN_SLOT_PARALLEL) plan->world = number(p, "world", plan->world);
  }
}
