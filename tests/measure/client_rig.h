/* client_rig: a server of a few lines, which answers every connection with given bytes, piece by piece. */
#ifndef TN_TESTS_CLIENT_RIG_H
#define TN_TESTS_CLIENT_RIG_H

#include "measure/client.h"

typedef struct canned canned;

/* pieces: NULL-terminated, sent pause_ms apart, to every connection; then it is closed. Borrowed until canned_close. */
canned *canned_open(const char *const *pieces, unsigned pause_ms);
void canned_close(canned *c);

const char *canned_url(const canned *c); /* "http://127.0.0.1:40321" */

/* Head and body of the last request. Borrowed until the next one comes. */
const char *canned_request(canned *c);
unsigned canned_n(canned *c); /* connections so far */

#endif
