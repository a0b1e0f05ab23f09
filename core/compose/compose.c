/* compose: see compose.h. */
#include "compose/compose.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compose/compose_int.h"
#include "sha256.h"

static tn_status read_host(const tn_config *c, const char *section, tn_options *out, tn_err *err)
{
  tn_options_want want = {section, NULL, tn_host_section_find(section)->params, false};
  return tn_options_read(c, &want, out, err);
}

tn_status tn_compose_host(const tn_config *c, tn_host_options *out, tn_err *err)
{
  *out = (tn_host_options){0};
  tn_status st = read_host(c, "engine", &out->engine, err);
  if (!st) st = read_host(c, "model", &out->model, err);
  if (st) {
    tn_compose_host_free(out);
    return st;
  }
  out->opts = tn_engine_opts_of(out->engine.values);
  out->model_path = out->model.values[TN_MODEL_PATH].v.s;
  return TN_OK;
}

void tn_compose_host_free(tn_host_options *h)
{
  tn_options_free(&h->engine);
  tn_options_free(&h->model);
  *h = (tn_host_options){0};
}

tn_compose_model tn_compose_model_of(const tn_model *m)
{
  tn_compose_model out = {.shape = &m->shape, .rope_scaling = ""};
  for (uint32_t i = 0; i < m->shape.n_classes && !*out.rope_scaling; i++)
    if (m->rope[i].scaling) out.rope_scaling = m->rope[i].scaling;
  for (uint32_t i = 0; i < m->shape.n_classes; i++)
    if (out.n_ctx_orig == 0 || m->rope[i].n_ctx_orig < out.n_ctx_orig) out.n_ctx_orig = m->rope[i].n_ctx_orig;
  tn_gguf_identity(m->gguf, out.identity);
  return out;
}

/* Everything after memory is there. */
static tn_status fill(tn_composition *c, tn_err *err)
{
  tn_status st = tn_compose_host(c->stack.config, &c->host, err);
  if (st) return st;
  c->stack.engine = &c->host.engine;
  for (uint32_t i = 0; i < TN_ENGINE_N; i++) {
    uint32_t type = c->host.engine.params[i]->type;
    if (type == TN_T_ENUM || type == TN_T_BOOL) c->stack.set[i] = c->host.engine.values[i].v.i;
  }
  st = tn_parts_read(c, err);
  if (!st) st = tn_warnings_find(c, &c->warnings, err);
  if (st) return st;
  tn_clash clash;
  if (!tn_resolve(&c->stack, &clash)) return tn_refuse(&c->stack, &clash, err);
  tn_plan_fill(&c->stack, &c->plan);
  return tn_fingerprint(c, c->fingerprint, err);
}

tn_status tn_compose(const tn_config *config, const tn_catalog *catalog, const tn_compose_model *model,
                     tn_composition **out, tn_err *err)
{
  *out = NULL;
  tn_composition *c = tn_zalloc(1, sizeof *c);
  if (!c) return tn_fail(err, TN_E_NOMEM, "no memory to compose");
  c->stack.config = config;
  c->stack.catalog = catalog;
  if (model) {
    c->model = *model;
    c->stack.model = &c->model;
  }
  tn_status st = fill(c, err);
  c->stack.catalog = NULL;
  if (st)
    tn_composition_free(c);
  else
    *out = c;
  return st;
}

void tn_composition_free(tn_composition *c)
{
  if (!c) return;
  for (uint32_t i = 0; i < c->stack.n; i++) tn_choice_close(&c->stack.part[i]);
  for (size_t i = 0; i < c->warnings.n; i++) free(c->warnings.at[i]);
  free(c->warnings.at);
  free(c->position_name);
  free(c->position_where);
  free(c->position_why);
  tn_compose_host_free(&c->host);
  free(c);
}

size_t tn_composition_n(const tn_composition *c) { return c->stack.n; }

const tn_choice *tn_composition_at(const tn_composition *c, size_t i)
{
  return i < c->stack.n ? &c->stack.part[i] : NULL;
}

const tn_choice *tn_composition_part(const tn_composition *c, const char *key)
{
  for (uint32_t i = 0; i < c->stack.n; i++)
    if (!strcmp(c->stack.part[i].key, key)) return &c->stack.part[i];
  return NULL;
}

const tn_host_options *tn_composition_host(const tn_composition *c) { return &c->host; }

const tn_plan *tn_composition_plan(const tn_composition *c) { return &c->plan.plan; }

const uint8_t *tn_composition_fingerprint(const tn_composition *c) { return c->fingerprint; }

void tn_composition_short(const tn_composition *c, char out[TN_FINGERPRINT_HEX + 1])
{
  char hex[65];
  tn_sha256_hex(c->fingerprint, hex);
  memcpy(out, hex, TN_FINGERPRINT_HEX);
  out[TN_FINGERPRINT_HEX] = '\0';
}

const char *tn_composition_warning(const tn_composition *c, size_t i)
{
  return i < c->warnings.n ? c->warnings.at[i] : NULL;
}
