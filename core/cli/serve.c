/* serve: `tenon serve`, an OpenAI-compatible HTTP server over a composed engine. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/engine_args.h"
#include "serve/server.h"

static const tn_cli_option options[] = {
    TN_ENGINE_OPTIONS,
    {"host", 0, "ADDRESS", "address to listen on; default 127.0.0.1, which only this machine reaches"},
    {"port", 0, "N", "port to listen on; 0: any that is free; default 8080"},
    {"parallel", 0, "N", "sequences that run at once, [engine] max_seqs; the others wait"},
    {"api-key", 0, "KEY", "what clients must send as Authorization: Bearer KEY; or TENON_API_KEY"},
    {"alias", 0, "NAME", "the model's name in requests and answers; default its file's"},
    {"chat-template", 0, "NAME|FILE", "template of conversations, in place of the model's own"},
    {"embeddings", 0, NULL, "offer /v1/embeddings: the last token's hidden row, of length 1"},
    {"slot-save-path", 0, "DIR", "folder that /slots/ID?action=save writes to; without it nothing is saved"},
    {"max-body", 0, "BYTES", "largest body of a request; default 4194304"},
    {"max-connections", 0, "N", "connections at once; default 256"},
    {"max-queue", 0, "N", "requests that may wait for their first token; further ones get 429; default 256"},
    {"timeout", 0, "S", "seconds that a request may take; 0: any; default 600"},
    {"read-timeout", 0, "S", "seconds for a client to send its request, or to take its answer; default 30"},
    {"sse-ping-interval", 0, "S", "seconds of silence after which a stream gets a comment; default 15"},
    {"drain", 0, "S", "seconds that running requests have after SIGTERM; default 30"},
};

static const tn_cli_usage usage = {
    .command = "serve",
    .operands = "",
    .summary =
        "Serves a model over HTTP, as OpenAI's API: /v1/chat/completions, /v1/completions, /v1/models and more.\n"
        "A request that names no temperature is sampled at 1, as OpenAI's API does; 0 is greedy.\n"
        "SIGTERM and Ctrl-C let running requests finish; a second one ends at once.\n\n"
        "  tenon serve -m models/smollm2-135m-instruct-q4_1.gguf --port 8080 --parallel 32\n"
        "  tenon serve --conf conf/recipes/fast-cpu.ini -m M.gguf --host 0.0.0.0 --api-key \"$KEY\"\n"
        "  curl -N localhost:8080/v1/chat/completions -d '{\"messages\": [{\"role\": \"user\",\n"
        "    \"content\": \"Hello\"}], \"stream\": true}'",
    .options = options,
    .n_options = TN_ARRAY_LEN(options),
};

typedef struct serve_args {
  tn_cli_args cli;
  tn_engine_args engine;
  tn_server_cfg server;
  uint32_t drain_s;
  bool embeddings;
} serve_args;

static bool number(serve_args *a, int i, const char *v, int64_t min, int64_t max, uint32_t *out)
{
  int64_t n;
  if (!tn_cli_number(&a->cli, options[i].name, v, min, max, &n)) return false;
  *out = (uint32_t)n;
  return true;
}

static bool take(serve_args *a, int i, const char *v)
{
  tn_server_cfg *s = &a->server;
  uint32_t n;
  char from[64];
  switch (i - (int)TN_N_ENGINE_OPTIONS) {
    case 0: s->host = v; return true;
    case 1: return number(a, i, v, 0, 65535, &s->port);
    case 2:
      if (!number(a, i, v, 1, 1024, &n)) return false;
      snprintf(from, sizeof from, "--parallel %u", n);
      return tn_engine_args_set(&a->engine, from, "max_seqs", n);
    case 3: s->api_key = v; return true;
    case 4: s->name = v; return true;
    case 5: s->chat_template = v; return true;
    case 6: a->embeddings = true; return true;
    case 7: s->slot_dir = v; return true;
    case 8:
      if (!number(a, i, v, 1024, 1 << 30, &n)) return false;
      s->max_body = n;
      return true;
    case 9: return number(a, i, v, 1, 65536, &s->max_connections);
    case 10: return number(a, i, v, 1, 1 << 20, &s->max_queue);
    case 11: return number(a, i, v, 0, 1 << 20, &s->timeout_s);
    case 12: return number(a, i, v, 1, 86400, &s->read_timeout_s);
    case 13: return number(a, i, v, 1, 86400, &s->keep_alive_s);
    default: return number(a, i, v, 0, 86400, &a->drain_s);
  }
}

static int parse(serve_args *a, int argc, char **argv)
{
  a->engine.cli = &a->cli;
  tn_cli_begin(&a->cli, &usage, argc, argv);
  const char *v;
  int i;
  while ((i = tn_cli_next(&a->cli, &v)) >= 0) {
    bool ok = i < (int)TN_N_ENGINE_OPTIONS ? tn_engine_args_take(&a->engine, i, v) : take(a, i, v);
    if (!ok) return TN_EXIT_USAGE;
  }
  if (i == TN_CLI_STOP) return a->cli.exit_code;
  if (a->cli.first_operand < argc) return tn_cli_mistake(&a->cli, "'%s' is no option", argv[a->cli.first_operand]);
  return -1;
}

/* Waits for a signal, looking after the server's connections meanwhile. */
static void wait_for_end(tn_server *s)
{
  while (!tn_cli_interrupted()) {
    usleep(200000);
    tn_server_watch(s);
  }
}

static bool interrupted_again(void) { return tn_cli_interrupts() > 1; }

static int serve(serve_args *a, tn_server *s)
{
  tn_setup setup;
  tn_err err = tn_err_init();
  tn_setup_args more = {.events = tn_server_events(s), .build_flags = a->embeddings ? TN_BUILD_HIDDEN : 0u};
  int code = tn_engine_args_open(&a->engine, &more, &setup);
  if (code != TN_EXIT_OK) {
    tn_server_close(s, 0, NULL);
    return code;
  }
  tn_engine_print_memory(stderr, &setup, a->engine.verbose);
  if (tn_server_ready(s, &setup, &err) != TN_OK) {
    code = tn_cli_fail(&a->cli, &err);
    a->drain_s = 0;
  } else {
    fprintf(stderr, "ready: http://%s:%u\n", a->server.host, tn_server_port(s));
    wait_for_end(s);
    fprintf(stderr, "ending: running requests have %u s\n", a->drain_s);
  }
  tn_server_close(s, a->drain_s, interrupted_again);
  if (a->engine.verbose) tn_engine_print_counters(stderr, setup.engine);
  tn_setup_close(&setup);
  return code;
}

int tn_cli_serve(int argc, char **argv)
{
  serve_args a = {.server = {.host = "127.0.0.1",
                             .port = 8080,
                             .api_key = getenv("TENON_API_KEY"),
                             .max_body = 4 << 20,
                             .max_connections = 256,
                             .max_queue = 256,
                             .timeout_s = 600,
                             .read_timeout_s = 30,
                             .keep_alive_s = 15},
                  .drain_s = 30};
  int code = parse(&a, argc, argv);
  if (code < 0) {
    tn_server *s;
    tn_err err = tn_err_init();
    char *conf_dir = tn_cli_conf_dir(), *page = NULL; /* its neighbour; conf/ may be a link */
    if (conf_dir) page = tn_asprintf("%.*s/serve/index.html", (int)(strlen(conf_dir) - strlen("/conf")), conf_dir);
    a.server.page = page;
    if (a.server.api_key && !*a.server.api_key) a.server.api_key = NULL;
    tn_cli_catch_ends();
    code = tn_server_open(&a.server, &s, &err) == TN_OK ? TN_EXIT_OK : tn_cli_fail(&a.cli, &err);
    if (code == TN_EXIT_OK) {
      fprintf(stderr, "listening on http://%s:%u, loading\n", a.server.host, tn_server_port(s));
      code = serve(&a, s);
    }
    free(page);
    free(conf_dir);
  }
  tn_engine_args_release(&a.engine);
  return code;
}
