/* engine_plugins: creates the composition's plugins and asks them what they want. See engine_int.h. */
#include <stdlib.h>
#include <string.h>

#include "engine_int.h"

static tn_status make(tn_engine *e, const tn_part_ref *p, tn_instance *out, tn_err *err)
{
  return p->desc ? tn_instance_new(p->desc, p->values, &e->services, out, err) : TN_OK;
}

static tn_status make_all(tn_engine *e, tn_err *err)
{
  const tn_engine_cfg *c = &e->cfg;
  const struct {
    const tn_part_ref *part;
    tn_instance *out;
  } parts[] = {{&c->memory, &e->memory},    {&c->eviction, &e->eviction}, {&c->kv, &e->kv_quantizer},
               {&c->demote, &e->demote},    {&c->position, &e->position}, {&c->scheduler, &e->scheduler},
               {&c->parallel, &e->parallel}};
  for (size_t i = 0; i < TN_ARRAY_LEN(parts); i++) {
    tn_status st = make(e, parts[i].part, parts[i].out, err);
    if (st != TN_OK) return st;
  }
  e->attention = tn_zalloc(c->n_attention, sizeof *e->attention);
  if (!e->attention) return tn_fail(err, TN_E_NOMEM, "no memory for the attention plugins");
  for (uint32_t i = 0; i < c->n_attention; i++) {
    tn_status st = make(e, &c->attention[i].part, &e->attention[i].in, err);
    if (st != TN_OK) return st;
    e->attention[i].layer0 = c->attention[i].layer0;
    e->attention[i].layer1 = c->attention[i].layer1;
    e->n_attention = i + 1;
  }
  return TN_OK;
}

static const tn_attn_part *part_of_layer(const tn_engine *e, uint32_t layer)
{
  for (uint32_t i = 0; i < e->n_attention; i++)
    if (layer >= e->attention[i].layer0 && layer < e->attention[i].layer1) return &e->attention[i];
  return NULL;
}

static bool offers(const tn_desc *backend, const char *token)
{
  for (size_t i = 0; backend->provides && backend->provides[i]; i++)
    if (strcmp(backend->provides[i], token) == 0) return true;
  return false;
}

/* What the engine itself relies on; masks are the program's to check. A plugin may ask for tiles or a state under some of
 * its options only, which its tokens cannot say. */
static tn_status check_spec(const tn_engine *e, const tn_attention_v1 *v, const tn_attn_spec *spec, tn_err *err)
{
  const tn_desc *backend = e->cfg.backend.desc;
  if (spec->kind == TN_AT_TILES && !TN_CAN(v, tiles))
    return tn_fail(err, TN_E_INTERNAL, "describe asks for tile lists, which need tiles()");
  if (spec->kind == TN_AT_STATE && !spec->state)
    return tn_fail(err, TN_E_INTERNAL, "describe asks for a recurrent state and says none");
  const char *token = spec->kind == TN_AT_TILES ? "attn.tiles/1" : spec->kind == TN_AT_STATE ? "attn.state/1" : NULL;
  if (token && !offers(backend, token))
    return tn_fail(err, TN_E_UNSUPPORTED,
                   "with these options it needs %s, which backend %s does not offer; set other options, or another "
                   "backend",
                   token, backend->name);
  return TN_OK;
}

static tn_status describe_attention(tn_engine *e, tn_err *err)
{
  const tn_model_shape *s = &e->model->shape;
  size_t n = (size_t)s->n_layers * s->n_kv_heads;
  e->attn = tn_zalloc(n, sizeof *e->attn);
  e->attn_ptrs = tn_zalloc(n, sizeof *e->attn_ptrs);
  if (!e->attn || !e->attn_ptrs) return tn_fail(err, TN_E_NOMEM, "no memory for attention specs");
  for (uint32_t l = 0; l < s->n_layers; l++) {
    const tn_attn_part *p = part_of_layer(e, l);
    if (!p) return tn_fail(err, TN_E_ARG, "layer %u has no attention plugin: see attention.layers", l);
    const tn_attention_v1 *v = p->in.desc->vtable;
    for (uint32_t h = 0; h < s->n_kv_heads; h++) {
      tn_attn_spec *spec = &e->attn[l * s->n_kv_heads + h];
      *spec = (tn_attn_spec){.struct_size = sizeof *spec, .kind = TN_AT_MASK, .mask = TN_MASK_ALL};
      e->attn_ptrs[l * s->n_kv_heads + h] = spec;
      tn_status st = v->describe(p->in.inst, e->cfg.plan, l, h, spec, err);
      if (st == TN_OK) st = check_spec(e, v, spec, err);
      if (st != TN_OK) {
        tn_err_prefix(err, "attention/%s: layer %u", p->in.desc->name, l);
        return st;
      }
    }
  }
  return TN_OK;
}

tn_status tn_engine_plugins_open(tn_engine *e, tn_err *err)
{
  tn_status st = make_all(e, err);
  return st == TN_OK ? describe_attention(e, err) : st;
}

void tn_engine_plugins_close(tn_engine *e)
{
  tn_instance_release(&e->parallel);
  tn_instance_release(&e->scheduler);
  tn_instance_release(&e->position);
  tn_instance_release(&e->demote);
  tn_instance_release(&e->kv_quantizer);
  tn_instance_release(&e->eviction);
  tn_instance_release(&e->memory);
  for (uint32_t i = 0; e->attention && i < e->cfg.n_attention; i++) tn_instance_release(&e->attention[i].in);
  free(e->attention);
  free(e->attn);
  free(e->attn_ptrs);
}

bool tn_engine_instance(const tn_engine *e, uint32_t i, const char **key, const tn_instance **out)
{
  const struct {
    const char *key;
    const tn_instance *in;
  } fixed[] = {{"memory", &e->memory},       {"eviction", &e->eviction}, {"kv", &e->kv_quantizer},
               {"demote", &e->demote},       {"draft", &e->draft},       {"position", &e->position},
               {"scheduler", &e->scheduler}, {"parallel", &e->parallel}};
  uint32_t n = TN_ARRAY_LEN(fixed), world = e->exec ? e->exec->world : 0;
  if (i < n)
    *key = fixed[i].key, *out = fixed[i].in;
  else if (i < n + e->n_attention)
    *key = "attention", *out = &e->attention[i - n].in;
  else if (i < n + e->n_attention + world)
    *key = "backend", *out = &e->exec->ranks[i - n - e->n_attention].backend;
  else if (i < n + e->n_attention + 2 * world)
    *key = "weights", *out = &e->exec->ranks[i - n - e->n_attention - world].quantizer;
  else
    return false;
  return true;
}
