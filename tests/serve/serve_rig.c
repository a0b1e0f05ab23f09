/* serve_rig: see serve_rig.h. */
#include "serve_rig.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/engine_rig.h"

struct serve_rig {
  tn_server *server;
  tn_setup setup;
  tn_loader *loader;
  bool loaded;
};

serve_rig *serve_listen(const tn_server_cfg *cfg)
{
  if (access(TN_BUILD_DIR "/lib/tenon/backend/cpu.so", R_OK) != 0) cr_skip_test("the backend is not built");
  serve_rig *r = tn_zalloc(1, sizeof *r);
  tn_server_cfg c = cfg ? *cfg : (tn_server_cfg){0};
  tn_err err = tn_err_init();
  c.host = "127.0.0.1";
  c.port = 0;
  if (!c.chat_template) c.chat_template = "chatml";
  if (!c.max_body) c.max_body = 1 << 20;
  if (!c.max_connections) c.max_connections = 64;
  if (!c.max_queue) c.max_queue = 64;
  if (!c.timeout_s) c.timeout_s = 60;
  if (!c.read_timeout_s) c.read_timeout_s = 10;
  if (!c.keep_alive_s) c.keep_alive_s = 15;
  cr_assert(tn_server_open(&c, &r->server, &err) == TN_OK, "%s", err.msg);
  return r;
}

void serve_load(serve_rig *r, const char *model, const char *const *sets)
{
  size_t n = 0;
  tn_err err = tn_err_init();
  tn_loader_cfg cfg = {.path = TN_BUILD_DIR "/tests/plugins", .lib_dir = TN_BUILD_DIR "/lib/tenon"};
  while (sets && sets[n]) n++;
  cr_assert(tn_loader_new(&cfg, &r->loader, &err) == TN_OK, "%s", err.msg);
  tn_setup_args a = {.sets = sets,
                     .n_sets = n,
                     .model = model,
                     .conf_dir = TN_SOURCE_DIR "/conf",
                     .loader = r->loader,
                     .events = tn_server_events(r->server),
                     .build_flags = TN_BUILD_HIDDEN};
  cr_assert(tn_setup_open(&a, &r->setup, &err) == TN_OK, "%s", err.msg);
  cr_assert(tn_server_ready(r->server, &r->setup, &err) == TN_OK, "%s", err.msg);
  r->loaded = true;
}

serve_rig *serve_open(const char *model, const char *const *sets, const tn_server_cfg *cfg)
{
  serve_rig *r = serve_listen(cfg);
  serve_load(r, model, sets);
  return r;
}

tn_server *serve_server(serve_rig *r) { return r->server; }
tn_setup *serve_setup(serve_rig *r) { return &r->setup; }

void serve_close(serve_rig *r)
{
  tn_server_close(r->server, 0, NULL);
  if (r->loaded) tn_setup_close(&r->setup);
  tn_loader_free(r->loader);
  free(r);
}

int serve_connect(serve_rig *r)
{
  struct sockaddr_in a = {.sin_family = AF_INET,
                          .sin_port = htons((uint16_t)tn_server_port(r->server)),
                          .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  struct timeval t = {.tv_sec = 30};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
  cr_assert(fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof a) == 0);
  return fd;
}

void serve_send(int fd, const void *bytes, size_t n)
{
  const char *p = bytes;
  while (n > 0) {
    ssize_t k = send(fd, p, n, MSG_NOSIGNAL);
    if (k <= 0) return; /* the server may hang up on what it refuses */
    p += k;
    n -= (size_t)k;
  }
}

static char *read_all(int fd, size_t *n)
{
  size_t cap = 1 << 16;
  char *p = malloc(cap);
  *n = 0;
  for (;;) {
    ssize_t k = recv(fd, p + *n, cap - *n - 1, 0);
    if (k <= 0) break;
    *n += (size_t)k;
    if (cap - *n < 4096) p = realloc(p, cap *= 2);
  }
  p[*n] = '\0';
  return p;
}

/* Joins chunks in place. */
static size_t unchunk(char *p, size_t n)
{
  size_t from = 0, to = 0;
  while (from < n) {
    char *end;
    size_t len = strtoul(p + from, &end, 16);
    from = (size_t)(end - p) + 2;
    if (len == 0 || from + len > n) break;
    memmove(p + to, p + from, len);
    to += len;
    from += len + 2;
  }
  p[to] = '\0';
  return to;
}

serve_reply serve_ask(serve_rig *r, const char *method, const char *path, const char *headers, const char *body)
{
  serve_reply a = {0};
  int fd = serve_connect(r);
  char *ask = tn_asprintf("%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%sContent-Length: %zu\r\n\r\n", method,
                          path, headers ? headers : "", body ? strlen(body) : 0);
  serve_send(fd, ask, strlen(ask));
  if (body) serve_send(fd, body, strlen(body));
  free(ask);
  size_t n;
  char *all = read_all(fd, &n), *blank = strstr(all, "\r\n\r\n");
  close(fd);
  if (blank) {
    a.status = atoi(all + strlen("HTTP/1.1 "));
    a.head = tn_strndup(all, (size_t)(blank - all) + 2);
    a.n = n - (size_t)(blank + 4 - all);
    a.body = malloc(a.n + 1);
    memcpy(a.body, blank + 4, a.n + 1);
    if (strcasestr(a.head, "transfer-encoding: chunked")) a.n = unchunk(a.body, a.n);
  } else {
    a.head = tn_strdup("");
    a.body = tn_strdup("");
  }
  free(all);
  return a;
}

void serve_reply_free(serve_reply *a)
{
  free(a->head);
  free(a->body);
  *a = (serve_reply){0};
}

static json_t *json_of(serve_reply *a, int *status)
{
  json_error_t e;
  if (!status) cr_assert(a->status == 200, "%d: %s", a->status, a->body);
  if (status) *status = a->status;
  json_t *j = json_loads(a->body, JSON_ALLOW_NUL, &e);
  cr_assert(j != NULL, "no JSON: %s", a->body);
  serve_reply_free(a);
  return j;
}

json_t *serve_post(serve_rig *r, int *status, const char *path, json_t *body)
{
  cr_assert(body != NULL);
  char *text = json_dumps(body, 0);
  serve_reply a = serve_ask(r, "POST", path, NULL, text);
  json_decref(body);
  free(text);
  return json_of(&a, status);
}

json_t *serve_get(serve_rig *r, int *status, const char *path)
{
  serve_reply a = serve_ask(r, "GET", path, NULL, NULL);
  return json_of(&a, status);
}

char *serve_event(const char *body, size_t i)
{
  const char *p = body;
  for (;; i--) {
    p = strstr(p, "data: ");
    if (!p) return NULL;
    p += strlen("data: ");
    if (i == 0) break;
  }
  const char *end = strstr(p, "\n\n");
  return end ? tn_strndup(p, (size_t)(end - p)) : NULL;
}

double serve_metric(serve_rig *r, const char *name)
{
  serve_reply a = serve_ask(r, "GET", "/metrics", NULL, NULL);
  double v = NAN;
  for (char *line = a.body; line && *line; line = strchr(line, '\n')) {
    line += *line == '\n';
    char *space = strchr(line, ' ');
    if (*line == '#' || !space || strncmp(line, name, strlen(name)) != 0) continue;
    char *end = strchr(line, '\n'), *value = end ? memrchr(line, ' ', (size_t)(end - line)) : NULL;
    if (value) v = strtod(value, NULL);
    break;
  }
  serve_reply_free(&a);
  return v;
}

bool serve_wait_running(serve_rig *r, int n)
{
  for (int i = 0; i < 1000; i++) {
    if (serve_metric(r, "vllm:num_requests_running") == n) return true;
    usleep(10000);
  }
  return false;
}
