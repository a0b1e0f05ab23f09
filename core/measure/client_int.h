/* client_int: what client.c and client_body.c share. See client.h. */
#ifndef TN_CORE_MEASURE_CLIENT_INT_H
#define TN_CORE_MEASURE_CLIENT_INT_H

#include "measure/client_stream.h"

/* The request's JSON text, owned (free()); NULL and *err where it makes none. */
char *tn_client_body(const tn_client_request *q, tn_err *err);

/* "http://host:8080/v1/" and the like without slashes and /v1 at its end, owned; NULL and *err where it is none. */
char *tn_client_base(const char *url, tn_err *err);

/* What a server means that answers with a status other than 200: its message, or the beginning of its body. */
void tn_client_refusal(tn_err *err, const char *url, int status, const char *body, size_t n);

#endif
