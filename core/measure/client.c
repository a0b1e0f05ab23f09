/* client: see client.h. Transfers run on one curl multi handle; what they receive goes through client_stream.c. */
#include "measure/client.h"

#include <curl/curl.h>
#include <stdlib.h>
#include <string.h>

#include "measure/client_int.h"

enum { CONNECT_S = 10, SILENCE_S = 600, ASK_MS = 200 };
#define MAX_REFUSAL ((size_t)1 << 16) /* bytes kept of an answer that is no stream */
#define MAX_JSON ((size_t)64 << 20)   /* of an answer to a GET */

typedef struct transfer {
  const tn_client *c;
  CURL *easy;
  char *url, *body;
  tn_client_answer *a; /* NULL: a GET */
  tn_stream stream;
  char *plain; /* [n_plain] what is no stream */
  size_t n_plain, most_plain;
  tn_status failed; /* of the write callback */
  char why[CURL_ERROR_SIZE];
  struct transfer *next;
} transfer;

struct tn_client {
  CURLM *multi;
  struct curl_slist *headers;
  char *base;
  long connect_s, silence_s;
  transfer *running;       /* on the multi handle */
  transfer *first, **last; /* complete, not given out yet */
  uint32_t n;              /* of both */
};

/* ---------------------------------------------------------------- life */

static bool add_header(tn_client *c, const char *line)
{
  struct curl_slist *more = curl_slist_append(c->headers, line);
  if (more) c->headers = more;
  return more != NULL;
}

static const char *key_of(const tn_client_cfg *cfg)
{
  const char *key = cfg->api_key;
  if (!key) key = getenv(TN_CLIENT_KEY_ENV);
  if (!key) key = getenv("OPENAI_API_KEY");
  return key ? key : "";
}

static bool make_headers(tn_client *c, const char *key)
{
  bool ok = add_header(c, "Content-Type: application/json") && add_header(c, "Expect:");
  if (!ok || !*key) return ok;
  char *line = tn_asprintf("Authorization: Bearer %s", key);
  ok = line && add_header(c, line);
  free(line);
  return ok;
}

tn_status tn_client_open(const tn_client_cfg *cfg, tn_client **out, tn_err *err)
{
  *out = NULL;
  char *base = tn_client_base(cfg->url, err);
  if (!base) return err ? err->code : TN_E_ARG;
  if (curl_global_init(CURL_GLOBAL_DEFAULT) != 0) {
    free(base);
    return tn_fail(err, TN_E_INTERNAL, "%s: the HTTP library does not start", cfg->url);
  }
  tn_client *c = tn_zalloc(1, sizeof *c);
  if (!c) {
    free(base);
    curl_global_cleanup();
    return tn_fail(err, TN_E_NOMEM, "no memory for a client");
  }
  c->base = base;
  c->last = &c->first;
  c->connect_s = cfg->connect_timeout_s ? (long)cfg->connect_timeout_s : CONNECT_S;
  c->silence_s = cfg->silence_timeout_s ? (long)cfg->silence_timeout_s : SILENCE_S;
  c->multi = curl_multi_init();
  if (!c->multi || !make_headers(c, key_of(cfg))) {
    tn_client_close(c);
    return tn_fail(err, TN_E_NOMEM, "no memory for a client");
  }
  curl_multi_setopt(c->multi, CURLMOPT_MAXCONNECTS, 4096L);
  *out = c;
  return TN_OK;
}

const char *tn_client_url(const tn_client *c) { return c->base; }

uint32_t tn_client_running(const tn_client *c) { return c->n; }

void tn_client_answer_free(tn_client_answer *a)
{
  if (!a) return;
  free(a->text);
  free(a->chunk_ns);
  free(a);
}

static void transfer_free(transfer *t)
{
  if (!t) return;
  if (t->easy) curl_easy_cleanup(t->easy);
  tn_stream_release(&t->stream);
  tn_client_answer_free(t->a);
  free(t->plain);
  free(t->url);
  free(t->body);
  free(t);
}

static void free_all(transfer *t, CURLM *multi)
{
  for (transfer *next; t; t = next) {
    next = t->next;
    if (multi) curl_multi_remove_handle(multi, t->easy);
    transfer_free(t);
  }
}

void tn_client_close(tn_client *c)
{
  if (!c) return;
  free_all(c->running, c->multi);
  free_all(c->first, NULL);
  if (c->multi) curl_multi_cleanup(c->multi);
  curl_slist_free_all(c->headers);
  free(c->base);
  free(c);
  curl_global_cleanup();
}

/* ---------------------------------------------------------------- what is received */

static tn_status keep_plain(transfer *t, const char *p, size_t n)
{
  if (n > t->most_plain - t->n_plain) {
    if (!t->a) return TN_E_IO; /* no JSON is cut */
    n = t->most_plain - t->n_plain;
  }
  char *more = realloc(t->plain, t->n_plain + n + 1);
  if (!more) return TN_E_NOMEM;
  t->plain = more;
  memcpy(t->plain + t->n_plain, p, n);
  t->n_plain += n;
  t->plain[t->n_plain] = '\0';
  return TN_OK;
}

static size_t on_data(char *p, size_t size, size_t count, void *ctx)
{
  transfer *t = ctx;
  size_t n = size * count;
  long status = 0;
  uint64_t now = tn_now_ns();
  curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
  bool stream = t->a && status == 200;
  t->failed = stream ? tn_stream_feed(&t->stream, p, n, now) : TN_OK;
  if (t->failed == TN_OK && (!stream || t->stream.n_events == 0)) t->failed = keep_plain(t, p, n);
  return t->failed == TN_OK ? n : 0;
}

/* ---------------------------------------------------------------- requests */

/* A transfer to path, ready to start. body: taken over, NULL for a GET. NULL: no memory. */
static transfer *transfer_new(tn_client *c, const char *path, char *body)
{
  transfer *t = tn_zalloc(1, sizeof *t);
  if (!t) {
    free(body);
    return NULL;
  }
  t->c = c;
  t->body = body;
  t->url = tn_asprintf("%s%s", c->base, path);
  t->easy = curl_easy_init();
  t->most_plain = body ? MAX_REFUSAL : MAX_JSON;
  if (body) t->stream.a = t->a = tn_zalloc(1, sizeof *t->a);
  if (!t->url || !t->easy || (body && !t->a)) {
    transfer_free(t);
    return NULL;
  }
  CURL *e = t->easy;
  bool ok = curl_easy_setopt(e, CURLOPT_URL, t->url) == 0 && curl_easy_setopt(e, CURLOPT_HTTPHEADER, c->headers) == 0;
  ok = ok && curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https") == 0;
  ok = ok && curl_easy_setopt(e, CURLOPT_PROXY, "") == 0;
  if (body) {
    ok = ok && curl_easy_setopt(e, CURLOPT_POSTFIELDS, body) == 0;
    ok = ok && curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(body)) == 0;
  }
  curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1); /* a request, a connection */
  curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_data);
  curl_easy_setopt(e, CURLOPT_WRITEDATA, t);
  curl_easy_setopt(e, CURLOPT_PRIVATE, t);
  curl_easy_setopt(e, CURLOPT_ERRORBUFFER, t->why);
  curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT, c->connect_s);
  curl_easy_setopt(e, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(e, CURLOPT_LOW_SPEED_TIME, c->silence_s);
  if (ok) return t;
  transfer_free(t);
  return NULL;
}

tn_status tn_client_send(tn_client *c, const tn_client_request *q, tn_err *err)
{
  char *body = tn_client_body(q, err);
  if (!body) return err ? err->code : TN_E_ARG;
  transfer *t = transfer_new(c, q->chat ? "/v1/chat/completions" : "/v1/completions", body);
  if (!t) return tn_fail(err, TN_E_NOMEM, "%s: no memory for a request", c->base);
  t->a->user = q->user;
  t->a->err = tn_err_init();
  t->a->n_prompt = t->a->n_new = t->a->n_cached = -1;
  t->a->sent_ns = tn_now_ns();
  CURLMcode code = curl_multi_add_handle(c->multi, t->easy);
  if (code != CURLM_OK) {
    transfer_free(t);
    return tn_fail(err, TN_E_INTERNAL, "%s: %s", c->base, curl_multi_strerror(code));
  }
  t->next = c->running;
  c->running = t;
  c->n++;
  return TN_OK;
}

/* What went wrong on the way, where something did. */
static void explain(transfer *t, CURLcode code)
{
  tn_client_answer *a = t->a;
  if (a->err.msg[0]) {
    tn_err_prefix(&a->err, "%s", t->url);
    return;
  }
  if (t->failed == TN_E_NOMEM)
    tn_fail(&a->err, TN_E_NOMEM, "%s: no memory for the answer", t->url);
  else if (code != CURLE_OK)
    tn_fail(&a->err, TN_E_IO, "%s: %s", t->url, t->why[0] ? t->why : curl_easy_strerror(code));
  else if (a->status != 200)
    tn_client_refusal(&a->err, t->url, a->status, t->plain, t->n_plain);
  else if (t->stream.n_events == 0)
    tn_fail(&a->err, TN_E_IO, "%s: the answer is no stream of events: %.120s", t->url, t->plain ? t->plain : "");
  else if (!t->stream.done && !a->finish[0])
    tn_fail(&a->err, TN_E_IO, "%s: the stream broke off after %u pieces", t->url, a->n_chunks);
}

static void finish(tn_client *c, CURL *easy, CURLcode code)
{
  char *private = NULL;
  long status = 0;
  curl_easy_getinfo(easy, CURLINFO_PRIVATE, &private);
  curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
  transfer *t = (transfer *)(void *)private;
  tn_client_answer *a = t->a;
  for (transfer **at = &c->running; *at; at = &(*at)->next) {
    if (*at != t) continue;
    *at = t->next;
    break;
  }
  curl_multi_remove_handle(c->multi, easy);
  a->done_ns = tn_now_ns();
  a->status = (int)status;
  explain(t, code);
  if (!a->text && !(a->text = tn_strdup(""))) tn_fail(&a->err, TN_E_NOMEM, "%s: no memory for the answer", t->url);
  a->ok = !a->err.msg[0];
  t->next = NULL;
  *c->last = t;
  c->last = &t->next;
}

static tn_status turn(tn_client *c, tn_err *err)
{
  int left;
  CURLMcode code = curl_multi_perform(c->multi, &left);
  if (code != CURLM_OK) return tn_fail(err, TN_E_INTERNAL, "%s: %s", c->base, curl_multi_strerror(code));
  for (const CURLMsg *m; (m = curl_multi_info_read(c->multi, &left));)
    if (m->msg == CURLMSG_DONE) finish(c, m->easy_handle, m->data.result);
  return TN_OK;
}

static tn_client_answer *give_out(tn_client *c)
{
  transfer *t = c->first;
  if (!t) return NULL;
  tn_client_answer *a = t->a;
  c->first = t->next;
  if (!c->first) c->last = &c->first;
  c->n--;
  t->a = NULL;
  transfer_free(t);
  return a;
}

tn_status tn_client_wait(tn_client *c, int timeout_ms, tn_client_answer **out, tn_err *err)
{
  uint64_t end = tn_now_ns() + (uint64_t)(timeout_ms > 0 ? timeout_ms : 0) * 1000000u;
  *out = NULL;
  for (;;) {
    tn_status st = turn(c, err);
    if (st != TN_OK) return st;
    *out = give_out(c);
    uint64_t now = tn_now_ns();
    if (*out || !c->running || now >= end) return TN_OK;
    int ms = (int)((end - now) / 1000000u) + 1;
    CURLMcode code = curl_multi_poll(c->multi, NULL, 0, ms, NULL);
    if (code != CURLM_OK) return tn_fail(err, TN_E_INTERNAL, "%s: %s", c->base, curl_multi_strerror(code));
  }
}

tn_status tn_client_ask(tn_client *c, const tn_client_request *q, bool (*stop)(void), tn_client_answer **out,
                        tn_err *err)
{
  *out = NULL;
  if (c->n > 0) return tn_fail(err, TN_E_STATE, "%s: other requests are under way", c->base);
  tn_status st = tn_client_send(c, q, err);
  while (st == TN_OK && !*out) {
    st = tn_client_wait(c, ASK_MS, out, err);
    if (st == TN_OK && !*out && stop && stop()) st = tn_fail(err, TN_E_STATE, "%s: interrupted", c->base);
  }
  if (st == TN_OK) return TN_OK;
  free_all(c->running, c->multi);
  c->running = NULL;
  c->n = 0;
  return st;
}

/* ---------------------------------------------------------------- other routes */

tn_status tn_client_get(tn_client *c, const char *path, json_t **out, tn_err *err)
{
  *out = NULL;
  json_error_t why;
  long status = 0;
  tn_status st = TN_OK;
  transfer *t = transfer_new(c, path, NULL);
  if (!t) return tn_fail(err, TN_E_NOMEM, "%s%s: no memory for a request", c->base, path);
  curl_easy_setopt(t->easy, CURLOPT_TIMEOUT, c->silence_s);
  CURLcode code = curl_easy_perform(t->easy);
  curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
  if (code != CURLE_OK) {
    st = tn_fail(err, TN_E_IO, "%s: %s", t->url, t->why[0] ? t->why : curl_easy_strerror(code));
  } else if (status != 200) {
    st = TN_E_IO;
    tn_client_refusal(err, t->url, (int)status, t->plain, t->n_plain);
  } else if (!(*out = json_loadb(t->plain ? t->plain : "", t->n_plain, 0, &why))) {
    st = tn_fail(err, TN_E_IO, "%s: the answer is no JSON: %s", t->url, why.text);
  }
  transfer_free(t);
  return st;
}

tn_status tn_client_model(tn_client *c, char **out, tn_err *err)
{
  json_t *j;
  *out = NULL;
  tn_status st = tn_client_get(c, "/v1/models", &j, err);
  if (st != TN_OK) return st;
  const json_t *id = json_object_get(json_array_get(json_object_get(j, "data"), 0), "id");
  if (!json_is_string(id))
    st = tn_fail(err, TN_E_IO, "%s/v1/models: lists no model", c->base);
  else if (!(*out = tn_strdup(json_string_value(id))))
    st = tn_fail(err, TN_E_NOMEM, "no memory for a model's name");
  json_decref(j);
  return st;
}
