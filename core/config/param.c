/* param: see param.h. */
#include "config/param.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "utf8.h"

static const char *const bool_words[] = {"false", "true", "no", "yes", "off", "on", "0", "1"};

/* Is it a number? Another one is no more likely to be meant for looking alike. */
static bool is_number(const char *text)
{
  double x;
  return tn_text_f64(text, strlen(text), &x);
}

/* "key = text: want ...", with the nearest of words where there is one. */
static tn_status bad(const tn_param *p, const char *text, const char *const *words, size_t n, tn_err *err)
{
  int shown = (int)tn_utf8_valid(text, strnlen(text, 60));
  char *range = tn_param_range(p);
  const char *near = words && !is_number(text) ? tn_nearest(text, words, n) : NULL;
  if (near)
    tn_fail(err, TN_E_ARG, "%s = %.*s: did you mean '%s'? Want %s", p->key, shown, text, near, range ? range : "");
  else
    tn_fail(err, TN_E_ARG, "%s = %.*s: want %s", p->key, shown, text, range ? range : "");
  free(range);
  return TN_E_ARG;
}

static tn_status parse_bool(const tn_param *p, const char *text, tn_value *out, tn_err *err)
{
  for (size_t i = 0; i < TN_ARRAY_LEN(bool_words); i++)
    if (!strcmp(text, bool_words[i])) {
      out->v.i = (int64_t)(i % 2);
      return TN_OK;
    }
  return bad(p, text, bool_words, TN_ARRAY_LEN(bool_words), err);
}

static tn_status parse_enum(const tn_param *p, const char *text, tn_value *out, tn_err *err)
{
  for (uint32_t i = 0; i < p->n_choices; i++)
    if (!strcmp(text, p->choices[i])) {
      out->v.i = i;
      return TN_OK;
    }
  return bad(p, text, p->choices, p->n_choices, err);
}

static tn_status parse_int(const tn_param *p, const char *text, tn_value *out, tn_err *err)
{
  int64_t x;
  size_t n = strlen(text);
  bool ok = p->type == TN_T_BYTES ? tn_text_bytes(text, n, &x) : tn_text_i64(text, n, &x);
  if (!ok || x < p->imin || x > p->imax) return bad(p, text, NULL, 0, err);
  out->v.i = x;
  return TN_OK;
}

static tn_status parse_f64(const tn_param *p, const char *text, tn_value *out, tn_err *err)
{
  double x;
  if (!tn_text_f64(text, strlen(text), &x) || x < p->fmin || x > p->fmax) return bad(p, text, NULL, 0, err);
  out->v.f = x;
  return TN_OK;
}

/* One number of a list, blanks around it allowed. */
static bool list_number(const tn_param *p, const char *from, size_t n, double *out)
{
  while (n && (*from == ' ' || *from == '\t')) from++, n--;
  while (n && (from[n - 1] == ' ' || from[n - 1] == '\t')) n--;
  return tn_text_f64(from, n, out) && *out >= p->fmin && *out <= p->fmax;
}

static tn_status parse_list(const tn_param *p, const char *text, tn_value *out, tn_err *err)
{
  size_t n = *text != '\0';
  for (const char *c = text; *c; c++) n += *c == ',';
  if (n > TN_PARAM_MAX_LIST)
    return tn_fail(err, TN_E_ARG, "%s: the list has %zu numbers, at most %u are allowed", p->key, n, TN_PARAM_MAX_LIST);
  double *list = tn_zalloc(n, sizeof *list);
  if (!list) return tn_fail(err, TN_E_NOMEM, "%s: no memory for %zu numbers", p->key, n);
  for (size_t i = 0; i < n; i++) {
    size_t len = strcspn(text, ",");
    if (!list_number(p, text, len, &list[i])) {
      char word[61];
      while (len && (*text == ' ' || *text == '\t')) text++, len--;
      snprintf(word, sizeof word, "%.*s", (int)(len < 60 ? len : 60), text);
      free(list);
      return bad(p, word, NULL, 0, err);
    }
    text += len + (text[len] == ',');
  }
  out->len = (uint32_t)n;
  out->v.list = list;
  return TN_OK;
}

static tn_status parse_text(const tn_param *p, const char *text, const char *base, tn_value *out, tn_err *err)
{
  bool relative = p->type == TN_T_PATH && *text && *text != '/';
  char *s = relative ? tn_path_from(base, text) : tn_strdup(text);
  if (!s) return tn_fail(err, TN_E_NOMEM, "%s: no memory", p->key);
  out->len = (uint32_t)strlen(s);
  out->v.s = s;
  return TN_OK;
}

tn_status tn_param_parse(const tn_param *p, const char *text, const char *base, tn_value *out, tn_err *err)
{
  *out = (tn_value){.type = p->type};
  switch (p->type) {
    case TN_T_BOOL: return parse_bool(p, text, out, err);
    case TN_T_I64:
    case TN_T_BYTES: return parse_int(p, text, out, err);
    case TN_T_F64: return parse_f64(p, text, out, err);
    case TN_T_ENUM: return parse_enum(p, text, out, err);
    case TN_T_STR:
    case TN_T_PATH: return parse_text(p, text, base, out, err);
    case TN_T_F64_LIST: return parse_list(p, text, out, err);
    default: return tn_fail(err, TN_E_UNSUPPORTED, "%s: option type %u is not known", p->key, p->type);
  }
}

tn_status tn_param_default(const tn_param *p, tn_value *out, tn_err *err)
{
  *out = (tn_value){.type = p->type};
  if (!p->def || (p->flags & TN_P_REQUIRED)) return tn_fail(err, TN_E_ARG, "option '%s' has no default", p->key);
  return tn_param_parse(p, p->def, NULL, out, err);
}

void tn_value_free(tn_value *v)
{
  if (v->type == TN_T_STR || v->type == TN_T_PATH) free((void *)v->v.s);
  if (v->type == TN_T_F64_LIST) free((void *)v->v.list);
  *v = (tn_value){0};
}
