/* server: HTTP in front of an engine. It listens from the beginning, says that it is loading, and serves once it is
 * given an open setup.
 *
 *   tn_server_open -> (the caller opens the setup with tn_server_events) -> tn_server_ready -> ... -> tn_server_close
 *
 * Thread rule: these calls from one thread; requests come on threads of their own. */
#ifndef TN_CORE_SERVE_SERVER_H
#define TN_CORE_SERVE_SERVER_H

#include "config/config.h"
#include "setup/setup.h"

typedef struct tn_server_cfg { /* texts are borrowed until close */
  const char *host;            /* address to listen on */
  const char *api_key;         /* NULL: none is asked for */
  const char *name;            /* of the model in answers; NULL: its file's */
  const char *page;            /* file that is served at /; NULL: none */
  const char *slot_dir;        /* folder of saved slots; NULL: slots are not saved */
  const char *chat_template;   /* name or file that replaces the model's own; NULL: the model's */
  size_t max_body;             /* bytes of a request */
  uint32_t port;               /* 0: any that is free */
  uint32_t max_connections, max_queue, timeout_s, read_timeout_s, keep_alive_s;
} tn_server_cfg;

typedef struct tn_server tn_server;

/* Listens. TN_E_IO names address and port when they cannot be had. */
tn_status tn_server_open(const tn_server_cfg *cfg, tn_server **out, tn_err *err);

/* For the setup's events. */
tn_events tn_server_events(tn_server *s);

/* Serves from now on. The setup is borrowed until close. */
tn_status tn_server_ready(tn_server *s, tn_setup *setup, tn_err *err);

/* The port it listens on. */
uint32_t tn_server_port(const tn_server *s);

/* To be called a few times a second: closes connections that take too long to say what they want, and puts a comment
 * into streams that were silent for keep_alive_s, whatever the engine is busy with. */
void tn_server_watch(tn_server *s);

/* Takes no more requests, waits until those under way are answered or so many seconds are over (stop_now ends the wait
 * early, NULL: never), then ends. Accepts NULL. */
void tn_server_close(tn_server *s, uint32_t drain_s, bool (*stop_now)(void));

#endif
