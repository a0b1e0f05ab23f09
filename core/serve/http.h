/* http: the daemon of a server. Internal to core/serve; see server.h for the thread rule. */
#ifndef TN_CORE_SERVE_HTTP_H
#define TN_CORE_SERVE_HTTP_H

#include "serve/server_int.h"

struct sockaddr;

/* Listens on the address; the server's fields but daemon are set. TN_E_IO. */
tn_status tn_http_open(tn_server *s, const struct sockaddr *address, bool v6, tn_err *err);

/* What is kept of a key, and compared. */
void tn_key_hash(const char *key, uint8_t out[32]);

/* Closes connections that have been asking for longer than read_timeout_s; a comment into streams that were silent for
 * keep_alive_s. */
void tn_http_watch(tn_server *s);

#endif
