/* serve_rig: a server on a tiny model in this process, and a client that speaks HTTP over a socket.
 *
 * One server at a time; rig calls end the test when something outside the matter at hand fails. */
#ifndef TN_TESTS_SERVE_RIG_H
#define TN_TESTS_SERVE_RIG_H

#include <jansson.h>

#include "serve/server.h"

typedef struct serve_rig serve_rig;

/* cfg: what differs from the usual limits, or NULL; port, host are set here; chats are ChatML's unless it says
 * otherwise, and embeddings are on. sets: NULL-terminated, may be NULL. The
 * test is skipped when the plugins are not built. */
serve_rig *serve_open(const char *model, const char *const *sets, const tn_server_cfg *cfg);

/* The same before its model is there; serve_load brings it. */
serve_rig *serve_listen(const tn_server_cfg *cfg);
void serve_load(serve_rig *r, const char *model, const char *const *sets);
void serve_close(serve_rig *r);
tn_server *serve_server(serve_rig *r);
tn_setup *serve_setup(serve_rig *r);

typedef struct serve_reply {
  int status;
  char *head, *body; /* chunks joined; NUL-terminated */
  size_t n;
} serve_reply;

/* One request on a connection of its own. body NULL: none; headers: further lines, each with \r\n, or NULL. */
serve_reply serve_ask(serve_rig *r, const char *method, const char *path, const char *headers, const char *body);
void serve_reply_free(serve_reply *a);

/* POST of JSON made as by json_pack; the answer's JSON, its status in *status (NULL: must be 200). */
json_t *serve_post(serve_rig *r, int *status, const char *path, json_t *body);
json_t *serve_get(serve_rig *r, int *status, const char *path);

/* The data of the i-th event of a stream's body, a new string; NULL past the end. */
char *serve_event(const char *body, size_t i);

/* A connected socket; the request's bytes are the caller's. */
int serve_connect(serve_rig *r);
void serve_send(int fd, const void *bytes, size_t n);

/* Waits until so many sequences run (metrics), at most 10 s. */
bool serve_wait_running(serve_rig *r, int n);

/* A metric's value, NaN when there is none of that name; labels may be part of it. */
double serve_metric(serve_rig *r, const char *name);

#endif
