/* request_int: what request.c's table and the functions that take one field each share. */
#ifndef TN_CORE_SERVE_REQUEST_INT_H
#define TN_CORE_SERVE_REQUEST_INT_H

#include "serve/request.h"

/* Take the value of the field `name`, which is not null; false: refused, *f says why. */
typedef bool (*tn_take_fn)(tn_gen *g, const char *name, const json_t *v, tn_fault *f);

bool tn_take_model(tn_gen *g, const char *name, const json_t *v, tn_fault *f);
bool tn_take_prompt(tn_gen *g, const char *name, const json_t *v, tn_fault *f);
bool tn_take_messages(tn_gen *g, const char *name, const json_t *v, tn_fault *f);
bool tn_take_template_args(tn_gen *g, const char *name, const json_t *v, tn_fault *f);
bool tn_take_options(tn_gen *g, const char *name, const json_t *v, tn_fault *f);
bool tn_take_salt(tn_gen *g, const char *name, const json_t *v, tn_fault *f);
bool tn_take_user(tn_gen *g, const char *name, const json_t *v, tn_fault *f);
bool tn_take_stop(tn_gen *g, const char *name, const json_t *v, tn_fault *f);
bool tn_take_stop_ids(tn_gen *g, const char *name, const json_t *v, tn_fault *f);
bool tn_take_bias(tn_gen *g, const char *name, const json_t *v, tn_fault *f);
bool tn_take_stream_options(tn_gen *g, const char *name, const json_t *v, tn_fault *f);
bool tn_take_format(tn_gen *g, const char *name, const json_t *v, tn_fault *f);
bool tn_take_encoding(tn_gen *g, const char *name, const json_t *v, tn_fault *f);
bool tn_take_logprobs(tn_gen *g, const char *name, const json_t *v, tn_fault *f);

/* "a string", "a number" ... of a JSON value, for messages. */
const char *tn_json_kind(const json_t *v);

#endif
