/* routes: what can be asked for, and the routes that only tell. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serve/server_int.h"

static const tn_route routes[] = {
    {"POST", "/v1/chat/completions", false, false, tn_serve_chat},
    {"POST", "/v1/completions", false, false, tn_serve_completions},
    {"POST", "/v1/embeddings", false, false, tn_serve_embeddings},
    {"GET", "/v1/models", false, false, tn_serve_models},
    {"GET", "/v1/models/", false, false, tn_serve_model},
    {"POST", "/tokenize", false, false, tn_serve_tokenize},
    {"POST", "/detokenize", false, false, tn_serve_detokenize},
    {"POST", "/apply-template", false, false, tn_serve_apply_template},
    {"GET", "/health", true, true, tn_serve_health},
    {"GET", "/metrics", false, true, tn_serve_metrics},
    {"GET", "/v1/plan", false, false, tn_serve_plan},
    {"POST", "/slots/", false, false, tn_serve_slot},
    {"GET", "/slots", false, false, tn_serve_slots},
    {"GET", "/version", true, true, tn_serve_version},
    {"GET", "/", true, true, tn_serve_page},
};

const tn_route *tn_route_find(const char *method, const char *path, bool *other_method)
{
  for (size_t i = 0; i < TN_ARRAY_LEN(routes); i++) {
    const tn_route *r = &routes[i];
    size_t n = strlen(r->path);
    bool same = n > 1 && r->path[n - 1] == '/' ? strncmp(path, r->path, n) == 0 && path[n] : !strcmp(path, r->path);
    if (!same) continue;
    bool get = !strcmp(r->method, "GET") && !strcmp(method, "HEAD");
    if (get || !strcmp(r->method, method)) return r;
    *other_method = true;
  }
  return NULL;
}

static json_t *model_of(const tn_server *s)
{
  tn_setup *setup = atomic_load(&((tn_server *)(uintptr_t)s)->setup);
  return json_pack("{s:s, s:s, s:I, s:s, s:I, s:s}", "id", s->name, "object", "model", "created",
                   (json_int_t)s->created, "owned_by", "tenon", "max_model_len",
                   (json_int_t)tn_engine_stat(setup->engine).ctx, "fingerprint", s->fingerprint);
}

enum MHD_Result tn_serve_models(tn_exchange *x)
{
  return tn_reply_json(x, 200, json_pack("{s:s, s:[o]}", "object", "list", "data", model_of(x->server)));
}

enum MHD_Result tn_serve_model(tn_exchange *x)
{
  const char *name = x->path + strlen("/v1/models/");
  if (!strcmp(name, x->server->name)) return tn_reply_json(x, 200, model_of(x->server));
  tn_fault f;
  tn_fault_status(&f, 404, "there is no model '%s' here; this server has '%s'", name, x->server->name);
  f.code = "model_not_found";
  return tn_reply_fault(x, &f);
}

/* Alive is not ready: 200 only while requests are taken. */
enum MHD_Result tn_serve_health(tn_exchange *x)
{
  tn_fault f;
  uint32_t state = tn_loop_state(x->server->loop);
  if (state == TN_LOOP_READY) return tn_reply_json(x, 200, json_pack("{s:s}", "status", "ok"));
  tn_fault_status(&f, 503, state == TN_LOOP_LOADING ? "Loading model" : "the server is shutting down");
  return tn_reply_fault(x, &f);
}

enum MHD_Result tn_serve_version(tn_exchange *x)
{
  return tn_reply_json(
      x, 200,
      json_pack("{s:s, s:i, s:i}", "version", TN_VERSION, "abi_major", TN_ABI_MAJOR, "abi_minor", TN_ABI_MINOR));
}

enum MHD_Result tn_serve_plan(tn_exchange *x)
{
  char *text = tn_strdup(x->server->plan);
  return tn_reply_owned(x, 200, "application/json", text, text ? strlen(text) : 0);
}

enum MHD_Result tn_serve_page(tn_exchange *x)
{
  if (x->server->page)
    return tn_reply_owned(x, 200, "text/html; charset=utf-8", tn_strndup(x->server->page, x->server->n_page),
                          x->server->n_page);
  tn_fault f;
  tn_fault_status(&f, 404, "the page is not installed: share/tenon/serve/index.html beside the command");
  return tn_reply_fault(x, &f);
}

static void gauge(FILE *f, const char *model, const char *name, const char *help, const char *type, double v)
{
  fprintf(f, "# HELP %s %s\n# TYPE %s %s\n%s{model_name=\"%s\",engine=\"0\"} %.17g\n", name, help, name, type, name,
          model, v);
}

static void print_figures(FILE *f, const char *model, const tn_loop_figures *g)
{
  const tn_engine_info *e = &g->engine;
  double usage = e->kv_bytes_total ? (double)e->kv_bytes_used / (double)e->kv_bytes_total : 0;
  gauge(f, model, "vllm:num_requests_running", "Sequences that are generating", "gauge", g->n_running);
  gauge(f, model, "vllm:num_requests_waiting", "Requests without a token yet", "gauge", g->n_waiting);
  gauge(f, model, "vllm:kv_cache_usage_perc", "Part of the KV cache that is in use, 1 is all", "gauge", usage);
  gauge(f, model, "vllm:num_preemptions_total", "Sequences that had to leave for a while", "counter",
        (double)e->n_preempted);
  gauge(f, model, "vllm:prefix_cache_queries_total", "Prompt tokens looked for in the prefix index", "counter",
        (double)e->prefix_asked);
  gauge(f, model, "vllm:prefix_cache_hits_total", "Prompt tokens found there", "counter", (double)e->prefix_found);
  gauge(f, model, "tenon:swapped_out_total", "Preemptions that kept their entries as bytes", "counter",
        (double)e->n_swapped_out);
  gauge(f, model, "tenon:kv_bytes_idle", "KV cache of the prefix index that nobody uses now", "gauge",
        (double)e->kv_bytes_idle);
  gauge(f, model, "tenon:kv_bytes", "Memory of the KV cache", "gauge", (double)e->kv_bytes_total);
  gauge(f, model, "tenon:kv_bytes_used", "KV cache in use", "gauge", (double)e->kv_bytes_used);
  gauge(f, model, "tenon:kv_tokens", "Entries that the KV cache holds", "gauge", (double)e->kv_tokens);
  gauge(f, model, "tenon:weights_bytes", "Memory of the weights", "gauge", (double)e->weights_bytes);
  gauge(f, model, "tenon:steps_total", "Steps of the engine", "counter", (double)e->steps);
  gauge(f, model, "tenon:rows_total", "Rows that ran in steps", "counter", (double)e->rows);
  fprintf(f,
          "# HELP vllm:cache_config_info Layout of the KV cache\n# TYPE vllm:cache_config_info gauge\n"
          "vllm:cache_config_info{model_name=\"%s\",engine=\"0\",block_size=\"%u\",num_gpu_blocks=\"%llu\"} 1\n",
          model, e->page_tokens, (unsigned long long)(e->page_tokens ? e->kv_tokens / e->page_tokens : 0));
  fprintf(f, "# HELP tenon:plugin_events_total What plugins count\n# TYPE tenon:plugin_events_total counter\n");
  for (uint32_t i = 0; i < g->n_counters; i++) {
    uint64_t sum = g->counters[i].value; /* ranks add up */
    bool seen = false;
    for (uint32_t k = 0; k < g->n_counters; k++) {
      const tn_counter *a = &g->counters[i], *b = &g->counters[k];
      bool same = !strcmp(a->key, b->key) && !strcmp(a->name, b->name) && !strcmp(a->counter, b->counter);
      if (k == i || !same) continue;
      seen = seen || k < i;
      sum += b->value;
    }
    if (seen) continue;
    fprintf(f, "tenon:plugin_events_total{model_name=\"%s\",slot=\"%s\",plugin=\"%s\",event=\"%s\"} %llu\n", model,
            g->counters[i].key, g->counters[i].name, g->counters[i].counter, (unsigned long long)sum);
  }
}

/* A label's value: quotes, backslashes and line ends would end it. */
static void plain(const char *name, char out[256])
{
  snprintf(out, 256, "%s", name ? name : "");
  for (char *p = out; *p; p++)
    if (*p == '"' || *p == '\\' || *p == '\n') *p = '_';
}

enum MHD_Result tn_serve_metrics(tn_exchange *x)
{
  char name[256], *text = NULL;
  size_t n = 0;
  bool ready = atomic_load(&x->server->setup) != NULL;
  plain(ready ? x->server->name : "", name);
  char *counts = tn_metrics_text(x->server->metrics, name);
  FILE *f = counts ? open_memstream(&text, &n) : NULL;
  if (!f) {
    free(counts);
    return MHD_NO;
  }
  fputs(counts, f);
  free(counts);
  if (ready) {
    tn_loop_figures *g = tn_zalloc(1, sizeof *g);
    if (g) {
      tn_loop_read_figures(x->server->loop, g);
      print_figures(f, name, g);
    }
    free(g);
  }
  if (fclose(f) != 0) {
    free(text);
    return MHD_NO;
  }
  return tn_reply_owned(x, 200, "text/plain; version=0.0.4; charset=utf-8", text, n);
}
