/* fault: see fault.h. */
#include "serve/fault.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serve/json_add.h"
#include "utf8.h"

static const char *type_of(int status)
{
  switch (status) {
    case 401: return "authentication_error";
    case 404: return "not_found_error";
    case 429: return "rate_limit_error";
    case 500: return "server_error";
    case 503: return "unavailable_error";
    case 504: return "timeout_error";
    default: return "invalid_request_error";
  }
}

/* Texts can quote a client's bytes: what is no UTF-8 becomes question marks, and a cut ends on a whole character. */
static void clean(char *s)
{
  size_t n = strlen(s), at = 0;
  while (at < n) {
    size_t good = tn_utf8_valid(s + at, n - at);
    at += good;
    if (at < n) s[at++] = '?';
  }
}

static void fill(tn_fault *f, int status, const char *param, const char *fmt, va_list ap)
{
  *f = (tn_fault){.status = status, .type = type_of(status)};
  if (param) snprintf(f->param, sizeof f->param, "%s", param);
  vsnprintf(f->msg, sizeof f->msg, fmt, ap);
  clean(f->param);
  clean(f->msg);
}

bool tn_fault_field(tn_fault *f, const char *param, const char *fmt, ...)
{
  va_list ap;
  va_start(ap, fmt);
  fill(f, 400, param, fmt, ap);
  va_end(ap);
  return false;
}

bool tn_fault_status(tn_fault *f, int status, const char *fmt, ...)
{
  va_list ap;
  va_start(ap, fmt);
  fill(f, status, NULL, fmt, ap);
  va_end(ap);
  return false;
}

bool tn_fault_engine(tn_fault *f, const tn_err *err)
{
  int status = 500;
  if (err->code == TN_E_ARG || err->code == TN_E_NEVER || err->code == TN_E_UNSUPPORTED) status = 400;
  if (err->code == TN_E_NOMEM || err->code == TN_E_FULL) status = 503;
  return tn_fault_status(f, status, "%s", err->msg[0] ? err->msg : tn_status_name(err->code));
}

char *tn_fault_text(const tn_fault *f)
{
  json_t *code = f->code ? json_string(f->code) : json_integer(f->status);
  json_t *e = json_pack("{s:s, s:s, s:o, s:o}", "message", f->msg, "type", f->type, "param",
                        f->param[0] ? json_string(f->param) : json_null(), "code", code);
  if (e && f->n_ctx > 0) {
    json_object_set_new(e, "n_prompt_tokens", json_integer(f->n_prompt));
    json_object_set_new(e, "n_ctx", json_integer(f->n_ctx));
  }
  json_t *all = e ? json_pack("{s:o}", "error", e) : NULL;
  char *text = tn_json_text(all, JSON_COMPACT);
  json_decref(all);
  return text;
}
