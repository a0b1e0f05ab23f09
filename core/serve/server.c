/* server: opening, getting ready and closing. See server.h. */
#include "serve/server.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "serve/http.h"

static tn_status listen_on(tn_server *s, tn_err *err)
{
  struct addrinfo hints = {.ai_flags = AI_PASSIVE | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM}, *found = NULL;
  char port[16];
  snprintf(port, sizeof port, "%u", s->cfg.port);
  int why = getaddrinfo(s->cfg.host, port, &hints, &found);
  if (why != 0) return tn_fail(err, TN_E_IO, "--host %s: %s", s->cfg.host, gai_strerror(why));
  tn_status st = tn_http_open(s, found->ai_addr, found->ai_family == AF_INET6, err);
  freeaddrinfo(found);
  if (st == TN_OK) return st;
  return tn_fail(err, TN_E_IO, "cannot listen on %s, port %u: is the port taken, or the address another machine's?",
                 s->cfg.host, s->cfg.port);
}

static tn_status read_page(tn_server *s, tn_err *err)
{
  if (!s->cfg.page) return TN_OK;
  tn_status st = tn_file_read(s->cfg.page, (size_t)1 << 22, &s->page, &s->n_page, err);
  if (st == TN_E_IO) return TN_OK; /* an installation without the page: / says so */
  return st;
}

tn_status tn_server_open(const tn_server_cfg *cfg, tn_server **out, tn_err *err)
{
  *out = NULL;
  tn_server *s = tn_zalloc(1, sizeof *s);
  if (!s) return tn_fail(err, TN_E_NOMEM, "no memory for the server");
  s->cfg = *cfg;
  s->created = (int64_t)time(NULL);
  pthread_mutex_init(&s->lock, NULL);
  if (cfg->api_key) tn_key_hash(cfg->api_key, s->key_hash);
  s->metrics = tn_metrics_new();
  tn_loop_cfg lc = {
      .max_queue = cfg->max_queue, .timeout_ns = (uint64_t)cfg->timeout_s * 1000000000u, .metrics = s->metrics};
  tn_status st = s->metrics ? tn_loop_new(&lc, &s->loop, err) : tn_fail(err, TN_E_NOMEM, "no memory for the server");
  if (st == TN_OK) st = read_page(s, err);
  if (st == TN_OK) st = listen_on(s, err);
  if (st != TN_OK) {
    tn_server_close(s, 0, NULL);
    return st;
  }
  *out = s;
  return TN_OK;
}

tn_events tn_server_events(tn_server *s) { return tn_loop_events(s->loop); }

/* The file's name without folder and ending. */
static char *name_of(const char *path)
{
  const char *slash = strrchr(path, '/'), *from = slash ? slash + 1 : path;
  size_t n = strlen(from);
  if (n > 5 && strcmp(from + n - 5, ".gguf") == 0) n -= 5;
  return tn_strndup(from, n);
}

tn_status tn_server_ready(tn_server *s, tn_setup *setup, tn_err *err)
{
  char print[TN_FINGERPRINT_HEX + 1];
  json_t *plan = tn_composition_json(setup->composition);
  s->plan = plan ? json_dumps(plan, JSON_INDENT(2)) : NULL;
  json_decref(plan);
  s->name = s->cfg.name ? tn_strdup(s->cfg.name) : name_of(tn_gguf_path(setup->model->gguf));
  tn_composition_short(setup->composition, print);
  snprintf(s->fingerprint, sizeof s->fingerprint, "tenon-%s", print);
  if (!s->plan || !s->name) return tn_fail(err, TN_E_NOMEM, "no memory for the server");
  tn_status st = tn_chat_ready(s, setup, err);
  s->slots = tn_slots_new(setup->opts.max_seqs, s->cfg.slot_dir);
  if (st == TN_OK && !s->slots) st = tn_fail(err, TN_E_NOMEM, "no memory for the slots");
  if (st == TN_OK) st = tn_loop_start(s->loop, setup, s->slots, err);
  if (st == TN_OK) atomic_store(&s->setup, setup);
  return st;
}

uint32_t tn_server_port(const tn_server *s)
{
  const union MHD_DaemonInfo *i = MHD_get_daemon_info(s->daemon, MHD_DAEMON_INFO_BIND_PORT);
  return i ? i->port : 0;
}

void tn_server_watch(tn_server *s) { tn_http_watch(s); }

typedef struct drain {
  tn_server *server;
  bool (*stop_now)(void);
} drain;

/* Connections are looked after to the end. */
static bool watch_drain(void *ctx)
{
  const drain *d = ctx;
  tn_http_watch(d->server);
  return d->stop_now && d->stop_now();
}

void tn_server_close(tn_server *s, uint32_t drain_s, bool (*stop_now)(void))
{
  if (!s) return;
  if (s->loop) tn_loop_drain(s->loop, drain_s * 1000u, watch_drain, &(drain){s, stop_now});
  if (s->daemon) MHD_stop_daemon(s->daemon);
  tn_loop_free(s->loop);
  tn_slots_free(s->slots);
  tn_metrics_free(s->metrics);
  pthread_mutex_destroy(&s->lock);
  tn_chat_close(&s->chat);
  free(s->page);
  free(s->name);
  free(s->plan);
  free(s);
}
