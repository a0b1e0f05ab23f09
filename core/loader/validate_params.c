/* validate_params: the rules of a parameter table. See validate.h. */
#include <string.h>

#include "config/options.h"
#include "config/param.h"
#include "loader/validate.h"
#include "loader/words.h"
#include "utf8.h"

enum { KNOWN_FLAGS = TN_P_REQUIRED | TN_P_RUNTIME | TN_P_OUTPUT | TN_P_REQUEST | TN_P_DEPRECATED, MAX_CHOICES = 64 };

/* "descriptor 'org.example.a': parameter 'window': " before the text. */
#define FAIL(d, p, fmt, ...)                                                                            \
  tn_fail(err, TN_E_UNSUPPORTED, "descriptor '%.63s': parameter '%.31s': " fmt, (d)->id ? (d)->id : "", \
          (p)->key ? (p)->key : "", __VA_ARGS__)

static tn_status check_key(const tn_desc *d, size_t i, tn_err *err)
{
  const tn_param *p = d->params[i];
  if (!p->key || !tn_is_name(p->key))
    return FAIL(d, p, "key of params[%zu] is '%.63s', want a lower-case letter, then letters, digits and _", i,
                p->key ? p->key : "NULL");
  if (tn_option_reserved(p->key)) return FAIL(d, p, "the key '%s' is the host's in every section", p->key);
  for (size_t k = 0; k < i; k++)
    if (strcmp(d->params[k]->key, p->key) == 0) return FAIL(d, p, "params[%zu] and params[%zu] have one key", k, i);
  return TN_OK;
}

static tn_status check_text(const tn_desc *d, const tn_param *p, tn_err *err)
{
  size_t n = p->help ? strnlen(p->help, TN_TEXT_MAX) : 0;
  if (n == 0 || n == TN_TEXT_MAX) return FAIL(d, p, "help has %zu bytes, want 1 to %u", n, TN_TEXT_MAX - 1);
  size_t good = tn_utf8_valid(p->help, n);
  if (good != n) return FAIL(d, p, "help is not UTF-8 at byte %zu", good);
  if (p->unit && strnlen(p->unit, 32) == 32) return FAIL(d, p, "unit is over %d bytes", 31);
  return TN_OK;
}

static tn_status check_choices(const tn_desc *d, const tn_param *p, tn_err *err)
{
  if (p->type != TN_T_ENUM) {
    if (p->n_choices) return FAIL(d, p, "n_choices is %u and the type %u is no enumeration", p->n_choices, p->type);
    return TN_OK;
  }
  if (p->n_choices == 0 || p->n_choices > MAX_CHOICES)
    return FAIL(d, p, "n_choices is %u, want 1 to %d", p->n_choices, MAX_CHOICES);
  if (!p->choices) return FAIL(d, p, "choices is NULL, n_choices is %u", p->n_choices);
  for (uint32_t i = 0; i < p->n_choices; i++) {
    if (!p->choices[i] || !*p->choices[i] || strnlen(p->choices[i], 64) == 64)
      return FAIL(d, p, "choices[%u] is NULL, empty or over %d bytes", i, 63);
    for (uint32_t k = 0; k < i; k++)
      if (strcmp(p->choices[k], p->choices[i]) == 0)
        return FAIL(d, p, "choices[%u] and choices[%u] are '%s'", k, i, p->choices[i]);
  }
  return TN_OK;
}

static tn_status check_range(const tn_desc *d, const tn_param *p, tn_err *err)
{
  if ((p->type == TN_T_I64 || p->type == TN_T_BYTES) && p->imin > p->imax)
    return FAIL(d, p, "imin is %lld, over imax, which is %lld", (long long)p->imin, (long long)p->imax);
  if (p->type == TN_T_BYTES && p->imin < 0) return FAIL(d, p, "imin is %lld bytes", (long long)p->imin);
  if ((p->type == TN_T_F64 || p->type == TN_T_F64_LIST) && !(p->fmin <= p->fmax))
    return FAIL(d, p, "fmin is %g, not at most fmax, which is %g", p->fmin, p->fmax);
  return TN_OK;
}

/* The default is a text that the parameter itself would take. */
static tn_status check_default(const tn_desc *d, const tn_param *p, tn_err *err)
{
  bool required = p->flags & TN_P_REQUIRED;
  if (required && p->def) return FAIL(d, p, "is required and has the default '%.63s'", p->def);
  if (required) return TN_OK;
  if (!p->def) return FAIL(d, p, "%s is NULL and the parameter is not required", "def");
  if (strnlen(p->def, TN_TEXT_MAX) == TN_TEXT_MAX) return FAIL(d, p, "def is over %u bytes", TN_TEXT_MAX - 1);
  tn_value v;
  tn_err why = tn_err_init();
  tn_status st = tn_param_default(p, &v, &why);
  if (st == TN_E_NOMEM) return tn_fail(err, st, "%s", why.msg);
  if (st != TN_OK) return FAIL(d, p, "its default: %s", why.msg);
  tn_value_free(&v);
  return TN_OK;
}

static tn_status check_param(const tn_desc *d, size_t i, tn_err *err)
{
  const tn_param *p = d->params[i];
  tn_status st = check_key(d, i, err);
  if (st != TN_OK) return st;
  if (p->type < TN_T_BOOL || p->type > TN_T_F64_LIST)
    return FAIL(d, p, "type is %u, types are %d to %d", p->type, TN_T_BOOL, TN_T_F64_LIST);
  if (p->flags & ~(uint32_t)KNOWN_FLAGS)
    return FAIL(d, p, "flags is %#x, this ABI knows the bits %#x", p->flags, KNOWN_FLAGS);
  st = check_text(d, p, err);
  if (st == TN_OK) st = check_choices(d, p, err);
  if (st == TN_OK) st = check_range(d, p, err);
  if (st == TN_OK) st = check_default(d, p, err);
  if (st != TN_OK) return st;
  if ((p->flags & TN_P_RUNTIME) && !d->set) return FAIL(d, p, "may change at run time, and %s is NULL", "tn_desc.set");
  return TN_OK;
}

tn_status tn_rule_params(const tn_desc *d, tn_err *err)
{
  size_t n = tn_list_len(d->params);
  tn_status st = TN_OK;
  for (size_t i = 0; i < n && st == TN_OK; i++) st = check_param(d, i, err);
  return st;
}
