/* http: connections, limits and the way of an answer back. See server.h; what is answered is in routes.c and its like. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "serve/http.h"
#include "serve/json_add.h"
#include "sha256.h"

static void suspend(void *ctx) { MHD_suspend_connection(ctx); }
static void resume(void *ctx) { MHD_resume_connection(ctx); }

/* ---------------------------------------------------------------- answers */

static enum MHD_Result queue(tn_exchange *x, int status, const char *type, struct MHD_Response *r)
{
  if (!r) return MHD_NO;
  MHD_add_response_header(r, "Content-Type", type);
  if (status == 429 || status == 503) MHD_add_response_header(r, "Retry-After", "1");
  if (status == 401) MHD_add_response_header(r, "WWW-Authenticate", "Bearer");
  enum MHD_Result done = MHD_queue_response(x->c, (unsigned)status, r);
  MHD_destroy_response(r);
  return done;
}

enum MHD_Result tn_reply_owned(tn_exchange *x, int status, const char *type, char *text, size_t n)
{
  if (!text) return MHD_NO;
  struct MHD_Response *r = MHD_create_response_from_buffer(n, text, MHD_RESPMEM_MUST_FREE);
  if (!r) free(text);
  return queue(x, status, type, r);
}

enum MHD_Result tn_reply_json(tn_exchange *x, int status, json_t *o)
{
  char *text = tn_json_text(o, JSON_COMPACT);
  json_decref(o);
  return tn_reply_owned(x, status, "application/json", text, text ? strlen(text) : 0);
}

enum MHD_Result tn_reply_fault(tn_exchange *x, const tn_fault *f)
{
  char *text = tn_fault_text(f);
  tn_metrics_add(x->server->metrics, TN_COUNT_REFUSED, 1);
  return tn_reply_owned(x, f->status, "application/json", text, text ? strlen(text) : 0);
}

static ssize_t read_stream(void *ctx, uint64_t pos, char *buf, size_t max)
{
  tn_exchange *x = ctx;
  (void)pos;
  long n = tn_outbox_read(x->out, buf, max, suspend, x->c);
  if (n == TN_OUTBOX_END) return MHD_CONTENT_READER_END_OF_STREAM;
  if (n == TN_OUTBOX_GONE) return MHD_CONTENT_READER_END_WITH_ERROR;
  return n;
}

/* The engine's answer: as a stream, or once it is whole. MHD_YES with nothing queued: the connection sleeps. */
static enum MHD_Result reply_outbox(tn_exchange *x)
{
  tn_str all;
  if (!x->stream && !tn_outbox_whole(x->out, &all, suspend, x->c)) return MHD_YES;
  int status = tn_outbox_status(x->out, suspend, x->c);
  if (status == 0) return MHD_YES;
  if (status < 0) return MHD_NO;
  if (x->stream && status == 200) {
    struct MHD_Response *r = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 16384, read_stream, x, NULL);
    if (r) MHD_add_response_header(r, "Cache-Control", "no-cache");
    return queue(x, 200, "text/event-stream", r);
  }
  if (x->stream && !tn_outbox_whole(x->out, &all, suspend, x->c)) return MHD_YES;
  char *text = all.n ? tn_strndup(all.p, all.n) : NULL;
  return tn_reply_owned(x, status, "application/json", text, all.n);
}

/* ---------------------------------------------------------------- requests */

static enum MHD_Result refuse(tn_exchange *x, int status, const char *why)
{
  tn_fault f;
  tn_fault_status(&f, status, "%s", why);
  x->served = true;
  return tn_reply_fault(x, &f);
}

void tn_key_hash(const char *key, uint8_t out[32])
{
  tn_sha256 h;
  tn_sha256_init(&h);
  tn_sha256_update(&h, key, strlen(key));
  tn_sha256_final(&h, out);
}

/* Compares digests, so that the time taken tells nothing of the key. */
static bool has_key(const tn_exchange *x)
{
  const char *h = MHD_lookup_connection_value(x->c, MHD_HEADER_KIND, "Authorization");
  const char *key = MHD_lookup_connection_value(x->c, MHD_HEADER_KIND, "X-Api-Key");
  if (h && strncasecmp(h, "Bearer ", 7) == 0) key = h + 7;
  uint8_t given[32], differs = 0;
  tn_key_hash(key ? key : "", given);
  for (size_t i = 0; i < sizeof given; i++) differs |= given[i] ^ x->server->key_hash[i];
  return differs == 0 && key;
}

/* stream: the answer that is watched from now on, NULL: none. */
static void set_asking(tn_exchange *x, bool asking, tn_outbox *stream)
{
  if (!x->peer) return;
  pthread_mutex_lock(&x->server->lock);
  x->peer->asking = asking;
  x->peer->since_ns = tn_now_ns();
  x->peer->stream = stream;
  pthread_mutex_unlock(&x->server->lock);
}

static tn_exchange *exchange_new(tn_server *s, struct MHD_Connection *c, const char *path)
{
  tn_exchange *x = tn_zalloc(1, sizeof *x);
  if (!x) return NULL;
  x->server = s;
  x->c = c;
  x->path = path;
  const union MHD_ConnectionInfo *i = MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
  x->peer = i ? i->socket_context : NULL;
  return x;
}

/* The headers are there. */
static enum MHD_Result on_headers(tn_exchange *x, const char *method)
{
  bool other = false;
  char *end, why[128];
  const char *length = MHD_lookup_connection_value(x->c, MHD_HEADER_KIND, "Content-Length");
  x->route = tn_route_find(method, x->path, &other);
  if (!x->route)
    return refuse(x, other ? 405 : 404, other ? "this path takes another method" : "there is no such path");
  if (x->server->cfg.api_key && !x->route->open && !has_key(x))
    return refuse(x, 401, "the API key is missing or wrong: send it as Authorization: Bearer KEY");
  unsigned long long n = length ? strtoull(length, &end, 10) : 0;
  if (n > x->server->cfg.max_body) {
    snprintf(why, sizeof why, "the body has %llu bytes, at most %zu are taken", n, x->server->cfg.max_body);
    return refuse(x, 413, why);
  }
  return MHD_YES;
}

/* More of the body. What is over the limit is read and dropped for a while, so that the client gets to read why. */
static enum MHD_Result on_body(tn_exchange *x, const char *data, size_t n)
{
  size_t most = x->server->cfg.max_body;
  if (x->n + n > most) x->too_large = true;
  if (x->too_large) {
    x->n += n;
    return x->n > 2 * most + (1 << 20) ? MHD_NO : MHD_YES;
  }
  if (x->n + n + 1 > x->cap) {
    size_t cap = 2 * (x->n + n) + 1024;
    char *grown = realloc(x->body, cap);
    if (!grown) return MHD_NO;
    x->body = grown;
    x->cap = cap;
  }
  memcpy(x->body + x->n, data, n);
  x->n += n;
  return MHD_YES;
}

static enum MHD_Result on_request(tn_exchange *x)
{
  x->served = true;
  set_asking(x, false, NULL);
  if (x->too_large) return refuse(x, 413, "the body is larger than this server takes");
  if (!x->route->anytime && !atomic_load(&x->server->setup)) return refuse(x, 503, "Loading model");
  enum MHD_Result done = x->route->serve(x);
  if (!x->out || done == MHD_NO) return done;
  const union MHD_ConnectionInfo *i = MHD_get_connection_info(x->c, MHD_CONNECTION_INFO_CONNECTION_FD);
  tn_outbox_attach(x->out, i ? i->connect_fd : -1, resume, x->c);
  if (x->stream) set_asking(x, false, x->out);
  return reply_outbox(x);
}

static enum MHD_Result on_access(void *ctx, struct MHD_Connection *c, const char *url, const char *method,
                                 const char *version, const char *data, size_t *n, void **state)
{
  tn_exchange *x = *state;
  (void)version;
  if (!x) {
    *state = x = exchange_new(ctx, c, url);
    return x ? on_headers(x, method) : MHD_NO;
  }
  if (*n > 0) {
    size_t have = *n;
    *n = 0;
    return x->served ? MHD_YES : on_body(x, data, have);
  }
  return x->out ? reply_outbox(x) : on_request(x);
}

static void on_completed(void *ctx, struct MHD_Connection *c, void **state, enum MHD_RequestTerminationCode why)
{
  tn_exchange *x = *state;
  (void)ctx;
  (void)c;
  (void)why;
  if (!x) return;
  set_asking(x, true, NULL);
  if (x->out) tn_outbox_leave(x->out);
  tn_outbox_drop(x->out);
  free(x->body);
  free(x);
  *state = NULL;
}

static void on_connection(void *ctx, struct MHD_Connection *c, void **socket_ctx,
                          enum MHD_ConnectionNotificationCode what)
{
  tn_server *s = ctx;
  tn_peer *p = *socket_ctx;
  if (what == MHD_CONNECTION_NOTIFY_STARTED) {
    const union MHD_ConnectionInfo *i = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
    *socket_ctx = p = tn_zalloc(1, sizeof *p);
    if (!p) return;
    *p = (tn_peer){.fd = i ? i->connect_fd : -1, .asking = true, .since_ns = tn_now_ns()};
  }
  if (!p) return;
  pthread_mutex_lock(&s->lock);
  if (what == MHD_CONNECTION_NOTIFY_STARTED) {
    p->next = s->peers;
    s->peers = p;
  } else {
    tn_peer **at = &s->peers;
    while (*at && *at != p) at = &(*at)->next;
    if (*at) *at = p->next;
    free(p);
    *socket_ctx = NULL;
  }
  pthread_mutex_unlock(&s->lock);
}

/* Up to cap streams, held, from the skip-th on. */
static size_t streams_of(tn_server *s, tn_outbox **out, size_t cap, size_t skip)
{
  size_t n = 0;
  pthread_mutex_lock(&s->lock);
  for (const tn_peer *p = s->peers; p && n < cap; p = p->next) {
    if (!p->stream) continue;
    if (skip > 0) {
      skip--;
      continue;
    }
    tn_outbox_hold(p->stream);
    out[n++] = p->stream;
  }
  pthread_mutex_unlock(&s->lock);
  return n;
}

/* Outside the lock, since a comment wakes a connection. */
static void keep_alive(tn_server *s)
{
  enum { AT_ONCE = 64 };
  tn_outbox *out[AT_ONCE];
  for (size_t n = AT_ONCE, seen = 0; n == AT_ONCE; seen += n) {
    n = streams_of(s, out, AT_ONCE, seen);
    for (size_t i = 0; i < n; i++) {
      tn_outbox_keep_alive(out[i], (uint64_t)s->cfg.keep_alive_s * 1000000000u);
      tn_outbox_drop(out[i]);
    }
  }
}

void tn_http_watch(tn_server *s)
{
  uint64_t now = tn_now_ns(), most = (uint64_t)s->cfg.read_timeout_s * 1000000000u;
  pthread_mutex_lock(&s->lock);
  for (tn_peer *p = s->peers; p; p = p->next)
    if (p->asking && p->fd >= 0 && now - p->since_ns > most) shutdown(p->fd, SHUT_RDWR);
  pthread_mutex_unlock(&s->lock);
  keep_alive(s);
}

enum { THREADS = 2, HEADER_BYTES = 32768 };

tn_status tn_http_open(tn_server *s, const struct sockaddr *address, bool v6, tn_err *err)
{
  unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_SUSPEND_RESUME | (v6 ? MHD_USE_IPv6 : 0u);
  unsigned connections = s->cfg.max_connections < THREADS ? THREADS : s->cfg.max_connections;
  s->daemon = MHD_start_daemon(
      flags, 0, NULL, NULL, on_access, s, MHD_OPTION_SOCK_ADDR, address, MHD_OPTION_THREAD_POOL_SIZE, (unsigned)THREADS,
      MHD_OPTION_CONNECTION_LIMIT, connections, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEADER_BYTES,
      MHD_OPTION_CONNECTION_TIMEOUT, s->cfg.read_timeout_s, MHD_OPTION_NOTIFY_COMPLETED, on_completed, s,
      MHD_OPTION_NOTIFY_CONNECTION, on_connection, s, MHD_OPTION_LISTENING_ADDRESS_REUSE, 1u, MHD_OPTION_END);
  return s->daemon ? TN_OK : tn_fail(err, TN_E_IO, "cannot listen");
}
