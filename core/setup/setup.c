/* setup: see setup.h. */
#include "setup.h"

#include <stdlib.h>
#include <string.h>

static tn_status read_config(const tn_setup_args *a, tn_setup *s, tn_err *err)
{
  s->config = tn_config_new(NULL, a->conf_dir);
  if (!s->config) return tn_fail(err, TN_E_NOMEM, "no memory for the configuration");
  tn_status st = TN_OK;
  if (a->n_conf == 0) {
    char *path = NULL, *bytes = NULL;
    size_t n;
    st = tn_config_conf_file(s->config, "default.ini", &path, &bytes, &n, err);
    if (st == TN_OK) st = tn_config_load(s->config, path, err);
    free(path);
    free(bytes);
  }
  for (size_t i = 0; st == TN_OK && i < a->n_conf; i++) st = tn_config_load(s->config, a->conf[i], err);
  for (size_t i = 0; st == TN_OK && i < a->n_sets; i++) {
    const char *from = a->sets_from ? a->sets_from[i] : NULL;
    st = from ? tn_config_set_from(s->config, a->sets[i], from, err) : tn_config_set(s->config, a->sets[i], err);
  }
  return st == TN_OK ? tn_compose_host(s->config, &s->host, err) : st;
}

static tn_status open_model(const tn_setup_args *a, tn_setup *s, tn_err *err)
{
  const char *path = a->model ? a->model : s->host.model_path;
  if (!*path)
    return tn_fail(err, TN_E_ARG, "no model: give a GGUF file with -m FILE, or [model] path in the configuration");
  tn_status st = tn_model_open(path, NULL, NULL, &s->model, err);
  return st == TN_OK ? tn_tokenizer_load(s->model->gguf, &s->tokenizer, err) : st;
}

static void log_line(void *ctx, int32_t level, const char *msg)
{
  const tn_setup_args *a = ctx;
  if (a->log) a->log(a->log_ctx, level, msg);
}

static tn_status make_composition(const tn_setup_args *a, tn_setup *s, tn_err *err)
{
  tn_status st = TN_OK;
  s->loader = a->loader;
  if (!s->loader) {
    tn_loader_cfg cfg = {.log = log_line, .ctx = (void *)(uintptr_t)a};
    st = tn_loader_new(&cfg, &s->loader, err);
    s->own_loader = st == TN_OK;
  }
  if (st != TN_OK) return st;
  tn_catalog catalog = tn_catalog_of(s->loader);
  tn_compose_model m = tn_compose_model_of(s->model);
  st = tn_compose(s->config, &catalog, &m, &s->composition, err);
  for (size_t i = 0; st == TN_OK && tn_composition_warning(s->composition, i); i++)
    log_line((void *)(uintptr_t)a, TN_LOG_WARN, tn_composition_warning(s->composition, i));
  return st;
}

static tn_part_ref part(const tn_setup *s, const char *key)
{
  const tn_choice *c = tn_composition_part(s->composition, key);
  return c ? (tn_part_ref){c->desc, c->options.values} : (tn_part_ref){NULL, NULL};
}

static tn_status list_attention(tn_setup *s, uint32_t *n, tn_err *err)
{
  size_t all = tn_composition_n(s->composition);
  s->attention = tn_zalloc(all, sizeof *s->attention);
  if (!s->attention) return tn_fail(err, TN_E_NOMEM, "no memory for the attention parts");
  for (size_t i = 0; i < all; i++) {
    const tn_choice *c = tn_composition_at(s->composition, i);
    if (c->slot != TN_SLOT_ATTENTION) continue;
    uint32_t end = c->layer1 == TN_LAYER_END ? s->model->shape.n_layers : c->layer1;
    s->attention[(*n)++] = (tn_layer_part){{c->desc, c->options.values}, c->layer0, end};
  }
  return TN_OK;
}

static tn_status list_eog(tn_setup *s, uint32_t *n, tn_err *err)
{
  int32_t all = tn_tokenizer_n_vocab(s->tokenizer);
  uint32_t count = 0;
  for (int32_t id = 0; id < all; id++) count += tn_token_is_eog(s->tokenizer, id);
  s->eog = tn_zalloc(count, sizeof *s->eog);
  if (!s->eog) return tn_fail(err, TN_E_NOMEM, "no memory for the end-of-generation tokens");
  for (int32_t id = 0; id < all; id++)
    if (tn_token_is_eog(s->tokenizer, id)) s->eog[(*n)++] = id;
  return TN_OK;
}

static uint32_t prep_flags(const tn_engine_opts *o)
{
  return (o->activations == TN_ACTIVATIONS_INT8 ? TN_PREP_ACT_INT8 : 0u) | (o->unfused ? TN_PREP_UNFUSED : 0u) |
         (o->attention_kernel == TN_KERNEL_NAIVE ? TN_PREP_NAIVE_ATTENTION : 0u);
}

static tn_status open_engine(const tn_setup_args *a, tn_setup *s, tn_err *err)
{
  const tn_engine_opts *o = &s->opts;
  if (o->in_flight > 1)
    return tn_fail(err, TN_E_UNSUPPORTED, "[engine] in_flight = %u: this engine runs one step at a time; set it to 1",
                   o->in_flight);
  if (a->cache_dir && o->weights_cache && !(s->cache_dir = tn_strdup(a->cache_dir)))
    return tn_fail(err, TN_E_NOMEM, "no memory for the name of the cache's folder");
  tn_engine_cfg c = {.model = s->model,
                     .backend = part(s, "backend"),
                     .memory = part(s, "memory"),
                     .eviction = part(s, "eviction"),
                     .weights = part(s, "weights"),
                     .kv = part(s, "kv"),
                     .demote = part(s, "demote"),
                     .draft = part(s, "draft"),
                     .position = part(s, "position"),
                     .scheduler = part(s, "scheduler"),
                     .parallel = part(s, "parallel"),
                     .plan = tn_composition_plan(s->composition),
                     .threads = o->threads,
                     .max_rows = o->max_rows,
                     .max_seqs = o->max_seqs,
                     .ctx = o->ctx,
                     .kv_budget = o->kv_budget_bytes,
                     .prefix_cache = o->prefix_cache,
                     .max_queued = o->max_queued,
                     .cache_dir = s->cache_dir,
                     .cache_limit = o->weights_cache_limit_bytes,
                     .flags = prep_flags(o),
                     .verify = o->verify,
                     .build_flags = a->build_flags,
                     .typical_eps = o->typical_eps,
                     .typical_delta = o->typical_delta,
                     .events = a->events,
                     .log = a->log,
                     .log_ctx = a->log_ctx,
                     .observe = a->observe,
                     .observe_ctx = a->observe_ctx,
                     .trace = a->trace,
                     .trace_ctx = a->trace_ctx,
                     .progress = a->progress,
                     .progress_ctx = a->progress_ctx,
                     .clock = a->clock,
                     .clock_ctx = a->clock_ctx,
                     .null_forward = a->null_forward};
  tn_status st = list_attention(s, &c.n_attention, err);
  if (st == TN_OK) st = list_eog(s, &c.n_eog, err);
  c.attention = s->attention;
  c.eog = s->eog;
  return st == TN_OK ? tn_engine_open(&c, &s->engine, err) : st;
}

tn_status tn_setup_open(const tn_setup_args *args, tn_setup *out, tn_err *err)
{
  *out = (tn_setup){0};
  tn_status st = read_config(args, out, err);
  out->opts = out->host.opts;
  if (st == TN_OK) st = open_model(args, out, err);
  if (st == TN_OK) st = make_composition(args, out, err);
  if (st == TN_OK && !args->no_engine) st = open_engine(args, out, err);
  if (st != TN_OK) tn_setup_close(out);
  return st;
}

void tn_setup_close(tn_setup *s)
{
  tn_engine_close(s->engine);
  free(s->cache_dir);
  free(s->attention);
  free(s->eog);
  tn_composition_free(s->composition);
  tn_tokenizer_free(s->tokenizer);
  tn_model_close(s->model);
  if (s->own_loader) tn_loader_free(s->loader);
  tn_compose_host_free(&s->host);
  tn_config_free(s->config);
  *s = (tn_setup){0};
}
