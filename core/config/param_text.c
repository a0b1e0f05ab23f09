/* param_text: options as text for people, for fingerprints and for messages; see param.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/param.h"

static char *render_bytes(int64_t x)
{
  static const char letters[] = "\0KMGT";
  int k = 0;
  while (k < 4 && x && x % 1024 == 0) {
    x /= 1024;
    k++;
  }
  return k ? tn_asprintf("%" PRId64 "%c", x, letters[k]) : tn_asprintf("%" PRId64, x);
}

static char *render_list(const tn_value *v)
{
  char *s = malloc((size_t)v->len * 34 + 1), *at = s;
  if (!s) return NULL;
  *at = '\0';
  for (uint32_t i = 0; i < v->len; i++) {
    char number[32];
    tn_f64_text(v->v.list[i], number);
    at += sprintf(at, "%s%s", i ? ", " : "", number);
  }
  return s;
}

char *tn_param_render(const tn_param *p, const tn_value *v)
{
  char number[32];
  switch (p->type) {
    case TN_T_BOOL: return tn_strdup(v->v.i ? "true" : "false");
    case TN_T_I64: return tn_asprintf("%" PRId64, v->v.i);
    case TN_T_BYTES: return render_bytes(v->v.i);
    case TN_T_F64: tn_f64_text(v->v.f, number); return tn_strdup(number);
    case TN_T_ENUM: return tn_strdup(v->v.i >= 0 && v->v.i < p->n_choices ? p->choices[v->v.i] : "");
    case TN_T_F64_LIST: return render_list(v);
    default: return tn_strdup(v->v.s ? v->v.s : "");
  }
}

static char *range_enum(const tn_param *p)
{
  size_t bytes = sizeof "one of ";
  for (uint32_t i = 0; i < p->n_choices; i++) bytes += strlen(p->choices[i]) + 2;
  char *s = malloc(bytes), *at = s;
  if (!s) return NULL;
  at += sprintf(at, "one of ");
  for (uint32_t i = 0; i < p->n_choices; i++) at += sprintf(at, "%s%s", i ? ", " : "", p->choices[i]);
  return s;
}

static char *range_f64(const tn_param *p)
{
  char lo[32], hi[32];
  tn_f64_text(p->fmin, lo);
  tn_f64_text(p->fmax, hi);
  const char *what = p->type == TN_T_F64 ? "a number" : "numbers with commas between,";
  if (p->unit) return tn_asprintf("%s from %s to %s (%s)", what, lo, hi, p->unit);
  return tn_asprintf("%s from %s to %s", what, lo, hi);
}

char *tn_param_range(const tn_param *p)
{
  char *s = NULL, *lo, *hi;
  switch (p->type) {
    case TN_T_BOOL: return tn_strdup("true or false");
    case TN_T_I64:
      return tn_asprintf("a whole number%s%s from %" PRId64 " to %" PRId64, p->unit ? " of " : "",
                         p->unit ? p->unit : "", p->imin, p->imax);
    case TN_T_BYTES:
      lo = render_bytes(p->imin);
      hi = render_bytes(p->imax);
      if (lo && hi) s = tn_asprintf("a size from %s to %s, such as 512M", lo, hi);
      free(lo);
      free(hi);
      return s;
    case TN_T_F64:
    case TN_T_F64_LIST: return range_f64(p);
    case TN_T_ENUM: return range_enum(p);
    case TN_T_PATH: return tn_strdup("a file");
    default: return tn_strdup("text");
  }
}
