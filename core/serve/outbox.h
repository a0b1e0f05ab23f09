/* outbox: bytes on their way from the engine thread to one connection, and word back that the client has left.
 *
 *   engine thread   begin (status is known) -> put ... -> end
 *   HTTP thread     status?  -> read ... until it is ended; leave when the connection is closed
 *
 * Each side holds a reference. Thread rule: any thread, every call locks. wake is called with the lock held, once for
 * each time that a reader was told to wait. */
#ifndef TN_CORE_SERVE_OUTBOX_H
#define TN_CORE_SERVE_OUTBOX_H

#include "base.h"

typedef struct tn_outbox tn_outbox;

enum { TN_OUTBOX_WAIT = 0, TN_OUTBOX_END = -1, TN_OUTBOX_GONE = -2 };

/* With one reference. NULL: no memory. */
tn_outbox *tn_outbox_new(void);
void tn_outbox_hold(tn_outbox *o);
void tn_outbox_drop(tn_outbox *o); /* accepts NULL */

/* ---------------------------------------------------------------- the engine's side */

/* The answer's status is known. */
void tn_outbox_begin(tn_outbox *o, int status);

/* Adds bytes; false: no memory, or more than TN_OUTBOX_MAX are unread; the reader then finds GONE. Nothing is added behind
 * the end. */
bool tn_outbox_put(tn_outbox *o, const char *bytes, size_t n);
void tn_outbox_end(tn_outbox *o);

/* A comment when nothing was put for so long, nanoseconds, in a stream that has begun with status 200 and is not over:
 * nobody between takes the connection for dead. Between two puts, so these are whole events. */
void tn_outbox_keep_alive(tn_outbox *o, uint64_t ns);

/* True when the client has left: the connection was closed, or its other end has hung up. */
bool tn_outbox_left(tn_outbox *o);

#define TN_OUTBOX_MAX ((size_t)64 << 20)

/* ---------------------------------------------------------------- the connection's side */

/* Whose wake is called, and the socket that is watched for a hang-up (-1: none). */
void tn_outbox_attach(tn_outbox *o, int fd, void (*wake)(void *ctx), void *ctx);

/* The connection is being closed: neither its socket nor wake is used again. */
void tn_outbox_leave(tn_outbox *o);

/* HTTP status, or 0 when it is not known yet: suspend() was called with the lock held, and wake will follow. */
int tn_outbox_status(tn_outbox *o, void (*suspend)(void *ctx), void *ctx);

/* Up to cap bytes into buf; or WAIT (as above), END, GONE. */
long tn_outbox_read(tn_outbox *o, char *buf, size_t cap, void (*suspend)(void *ctx), void *ctx);

/* Ended? Then all bytes, borrowed until drop. Else false (suspended as above). */
bool tn_outbox_whole(tn_outbox *o, tn_str *all, void (*suspend)(void *ctx), void *ctx);

#endif
