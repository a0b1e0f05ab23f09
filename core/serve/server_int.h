/* server_int: what the HTTP side's files share. */
#ifndef TN_CORE_SERVE_SERVER_INT_H
#define TN_CORE_SERVE_SERVER_INT_H

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>

#include "chat/chat.h"
#include "serve/loop.h"
#include "serve/server.h"

struct tn_server {
  tn_server_cfg cfg;
  tn_loop *loop;
  tn_metrics *metrics;
  tn_slots *slots; /* set before setup */
  struct MHD_Daemon *daemon;
  uint8_t key_hash[32];
  char *page; /* [n_page] */
  size_t n_page;
  pthread_mutex_t lock;      /* peers */
  struct tn_peer *peers;     /* open connections */
  _Atomic(tn_setup *) setup; /* NULL while loading */
  tn_chat chat;              /* without a template: no_template says why */
  tn_err no_template;
  char *name, *plan; /* set before setup */
  char fingerprint[64];
  int64_t created;
};

typedef struct tn_peer { /* an open connection */
  struct tn_peer *next;
  int fd;
  bool asking; /* has not yet said all of a request */
  uint64_t since_ns;
  tn_outbox *stream; /* of the streamed answer that is under way, borrowed from its exchange; NULL: none */
} tn_peer;

typedef struct tn_route tn_route;

typedef struct tn_exchange { /* one request and its answer */
  tn_server *server;
  struct MHD_Connection *c;
  const tn_route *route;
  tn_peer *peer;
  const char *path; /* borrowed from the connection */
  char *body;       /* [n] */
  size_t n, cap;
  bool too_large, served;
  tn_outbox *out; /* the answer comes from the engine; NULL: it was given at once */
  bool stream;
} tn_exchange;

struct tn_route {
  const char *method, *path; /* a path that ends in a slash takes what begins with it and is longer */
  bool open;                 /* no key is asked for */
  bool anytime;              /* also while loading */
  enum MHD_Result (*serve)(tn_exchange *x);
};

const tn_route *tn_route_find(const char *method, const char *path, bool *other_method);

/* ---------------------------------------------------------------- answers */

/* Text that is freed by the answer, or copied. status 429 and 503 carry Retry-After. */
enum MHD_Result tn_reply_owned(tn_exchange *x, int status, const char *type, char *text, size_t n);
enum MHD_Result tn_reply_json(tn_exchange *x, int status, json_t *o); /* takes over the reference */
enum MHD_Result tn_reply_fault(tn_exchange *x, const tn_fault *f);

/* Routes, in routes.c, routes_gen.c and routes_text.c. */
enum MHD_Result tn_serve_completions(tn_exchange *x);
enum MHD_Result tn_serve_chat(tn_exchange *x);
enum MHD_Result tn_serve_embeddings(tn_exchange *x);
enum MHD_Result tn_serve_models(tn_exchange *x);
enum MHD_Result tn_serve_model(tn_exchange *x);
enum MHD_Result tn_serve_health(tn_exchange *x);
enum MHD_Result tn_serve_version(tn_exchange *x);
enum MHD_Result tn_serve_metrics(tn_exchange *x);
enum MHD_Result tn_serve_plan(tn_exchange *x);
enum MHD_Result tn_serve_page(tn_exchange *x);
enum MHD_Result tn_serve_slots(tn_exchange *x);
enum MHD_Result tn_serve_slot(tn_exchange *x);
enum MHD_Result tn_serve_tokenize(tn_exchange *x);
enum MHD_Result tn_serve_detokenize(tn_exchange *x);
enum MHD_Result tn_serve_apply_template(tn_exchange *x);

/* The model's chat template, or the one that --chat-template names; a model without one serves all but chats. */
tn_status tn_chat_ready(tn_server *s, const tn_setup *setup, tn_err *err);

/* A chat as its template renders it; tn_chat_text_clear. false: *f says why. */
bool tn_chat_make(const tn_server *s, const tn_gen *g, tn_chat_text *out, tn_fault *f);

#endif
