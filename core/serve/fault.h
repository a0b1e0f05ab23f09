/* fault: why a request is refused, as a client is told: HTTP status and OpenAI's error object.
 *
 *   {"error": {"message": ..., "type": ..., "param": ..., "code": ...}}
 *
 * Thread rule: any thread; a fault belongs to its caller. */
#ifndef TN_CORE_SERVE_FAULT_H
#define TN_CORE_SERVE_FAULT_H

#include <jansson.h>

#include "base.h"

typedef struct tn_fault {
  int status;              /* HTTP; 0: no fault */
  const char *type, *code; /* static texts; code NULL: the status as a number */
  char param[64];          /* field of the request, "" for none */
  char msg[512];
  int64_t n_prompt, n_ctx; /* n_ctx > 0: told as n_prompt_tokens and n_ctx */
} tn_fault;

/* Fills *f: 400 and invalid_request_error for the others to change. param may be NULL. Returns false. */
bool tn_fault_field(tn_fault *f, const char *param, const char *fmt, ...) TN_PRINTF(3, 4);

/* The same with a status of its own; type follows from it. Returns false. */
bool tn_fault_status(tn_fault *f, int status, const char *fmt, ...) TN_PRINTF(3, 4);

/* An engine's refusal. Returns false. */
bool tn_fault_engine(tn_fault *f, const tn_err *err);

/* The error object as text, NULL without memory. Free with free(). */
char *tn_fault_text(const tn_fault *f);

#endif
