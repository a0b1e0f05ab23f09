/* ops: operators of two values, with Python's rules. Whole numbers have 64 bits; what does not fit is an error. */
#include <math.h>

#include "chat/jinja.h"

static const char *const signs[] = {
    [TN_JO_ADD] = "+", [TN_JO_SUB] = "-",           [TN_JO_MUL] = "*", [TN_JO_DIV] = "/", [TN_JO_FLOORDIV] = "//",
    [TN_JO_MOD] = "%", [TN_JO_POW] = "** or pow()", [TN_JO_LT] = "<",  [TN_JO_LE] = "<=", [TN_JO_GT] = ">",
    [TN_JO_GE] = ">="};

static bool whole(tn_jrun *r, tn_jop op, int64_t a, int64_t b, tn_jv *out)
{
  bool over = false;
  int64_t x = 0;
  if ((op == TN_JO_FLOORDIV || op == TN_JO_MOD) && b == 0) return tn_j_fail(r, TN_E_ARG, "division by zero");
  switch (op) {
    case TN_JO_ADD: over = __builtin_add_overflow(a, b, &x); break;
    case TN_JO_SUB: over = __builtin_sub_overflow(a, b, &x); break;
    case TN_JO_MUL: over = __builtin_mul_overflow(a, b, &x); break;
    case TN_JO_FLOORDIV:
      over = a == INT64_MIN && b == -1;
      if (!over) x = a / b - (a % b != 0 && (a < 0) != (b < 0));
      break;
    case TN_JO_MOD:
      x = b == -1 ? 0 : a % b;
      if (x != 0 && (x < 0) != (b < 0)) x += b;
      break;
    default: /* a power: b >= 0 */
      for (x = 1; b > 0 && !over; b--) {
        over = __builtin_mul_overflow(x, a, &x) || !tn_j_tick(r, 1);
        if (x == 0 || (x == 1 && a == 1)) break;
      }
      break;
  }
  if (over) return tn_j_fail(r, TN_E_ARG, "the result of %s is no whole number of 64 bits", signs[op]);
  *out = tn_jv_int(x);
  return true;
}

static bool real(tn_jrun *r, tn_jop op, double a, double b, tn_jv *out)
{
  double x;
  if ((op == TN_JO_DIV || op == TN_JO_FLOORDIV || op == TN_JO_MOD) && b == 0)
    return tn_j_fail(r, TN_E_ARG, "division by zero");
  switch (op) {
    case TN_JO_ADD: x = a + b; break;
    case TN_JO_SUB: x = a - b; break;
    case TN_JO_MUL: x = a * b; break;
    case TN_JO_DIV: x = a / b; break;
    case TN_JO_FLOORDIV: x = floor(a / b); break;
    case TN_JO_MOD:
      x = fmod(a, b);
      if (x != 0 && (x < 0) != (b < 0)) x += b;
      break;
    default: x = pow(a, b); break;
  }
  *out = tn_jv_float(x);
  return true;
}

/* A text, list or tuple n times. */
static bool repeat(tn_jrun *r, const tn_jv *v, int64_t n, tn_jv *out)
{
  tn_jbuf b = {0};
  if (v->kind != TN_J_STR && !tn_jv_list(r, v->kind, out)) return false;
  size_t length = v->kind == TN_J_STR ? v->s.n : v->list->n;
  for (int64_t k = 0; length > 0 && k < n; k++) {
    if (!tn_j_tick(r, 1)) return false;
    if (v->kind == TN_J_STR) {
      if (!tn_jbuf_add(r, &b, v->s)) return false;
      continue;
    }
    for (size_t i = 0; i < length; i++) {
      if (!tn_jlist_add(r, out->list, v->list->v[i])) return false;
    }
  }
  if (v->kind == TN_J_STR) *out = tn_jv_str(tn_jbuf_str(&b));
  return true;
}

static bool is_list(const tn_jv *v) { return v->kind == TN_J_LIST || v->kind == TN_J_TUPLE; }

/* a + b of two texts, lists or tuples. */
static bool join(tn_jrun *r, const tn_jv *a, const tn_jv *b, tn_jv *out)
{
  if (a->kind == TN_J_STR) {
    tn_jbuf buf = {0};
    if (a->safe != b->safe)
      return tn_j_fail(r, TN_E_UNSUPPORTED, "+ of a text from the filter safe and one that is not from it");
    if (!tn_jbuf_add(r, &buf, a->s) || !tn_jbuf_add(r, &buf, b->s)) return false;
    *out = tn_jv_str(tn_jbuf_str(&buf));
    out->safe = a->safe;
    return true;
  }
  if (!tn_jv_list(r, a->kind, out)) return false;
  const tn_jlist *parts[] = {a->list, b->list};
  for (size_t k = 0; k < 2; k++) {
    for (size_t i = 0; i < parts[k]->n; i++) {
      if (!tn_jlist_add(r, out->list, parts[k]->v[i])) return false;
    }
  }
  return true;
}

static bool no_operator(tn_jrun *r, tn_jop op, const tn_jv *a, const tn_jv *b)
{
  if (a->kind == TN_J_UNDEF || b->kind == TN_J_UNDEF) return tn_jv_missing(r, a->kind == TN_J_UNDEF ? a : b);
  if (op == TN_JO_ADD && (a->kind == TN_J_STR || is_list(a)))
    return tn_j_fail(r, TN_E_ARG, "can only concatenate %s (not \"%s\") to %s", tn_jv_type(a), tn_jv_type(b),
                     tn_jv_type(a));
  return tn_j_fail(r, TN_E_ARG, "unsupported operand type(s) for %s: '%s' and '%s'", signs[op], tn_jv_type(a),
                   tn_jv_type(b));
}

bool tn_j_binary(tn_jrun *r, tn_jop op, const tn_jv *a, const tn_jv *b, tn_jv *out)
{
  int64_t i, k;
  double x, y;
  bool wholes = tn_jv_integer(a, &i) && tn_jv_integer(b, &k);
  if (wholes && op != TN_JO_DIV && !(op == TN_JO_POW && k < 0)) return whole(r, op, i, k, out);
  if (tn_jv_number(a, &x) && tn_jv_number(b, &y)) return real(r, op, x, y, out);
  if (op == TN_JO_ADD && a->kind == b->kind && (a->kind == TN_J_STR || is_list(a))) return join(r, a, b, out);
  if (op == TN_JO_MUL && (a->kind == TN_J_STR || is_list(a)) && tn_jv_integer(b, &k)) return repeat(r, a, k, out);
  if (op == TN_JO_MUL && (b->kind == TN_J_STR || is_list(b)) && tn_jv_integer(a, &i)) return repeat(r, b, i, out);
  if (op == TN_JO_MOD && a->kind == TN_J_STR) {
    tn_jargs args = {.v = b->kind == TN_J_TUPLE ? b->list->v : b, .n = b->kind == TN_J_TUPLE ? b->list->n : 1};
    return tn_j_apply_filter(r, TN_JS("format"), a, &args, out);
  }
  return no_operator(r, op, a, b);
}

static bool contains(tn_jrun *r, const tn_jv *a, const tn_jv *b, bool *out)
{
  const tn_jv *items;
  size_t n;
  *out = false;
  if (b->kind == TN_J_STR) {
    if (a->kind == TN_J_UNDEF) return tn_jv_missing(r, a);
    if (a->kind != TN_J_STR)
      return tn_j_fail(r, TN_E_ARG, "'in <string>' requires string as left operand, not %s", tn_jv_type(a));
    *out = tn_js_find(b->s, a->s, 0) != TN_JS_NONE;
    return tn_j_tick(r, b->s.n / 256);
  }
  if (b->kind == TN_J_DICT) {
    *out = tn_jdict_get(b->dict, a) != NULL;
    return tn_j_tick(r, b->dict->n / 16);
  }
  if (b->kind != TN_J_UNDEF && !is_list(b) && b->kind != TN_J_GEN)
    return tn_j_fail(r, TN_E_ARG, "argument of type '%s' is not iterable", tn_jv_type(b));
  if (!tn_jv_items(r, b, &items, &n)) return false;
  for (size_t i = 0; i < n && !*out; i++) {
    if (!tn_jv_eq(r, a, &items[i], out)) return false;
  }
  return true;
}

bool tn_j_compare(tn_jrun *r, tn_jop op, const tn_jv *a, const tn_jv *b, bool *out)
{
  int c;
  if (op == TN_JO_EQ || op == TN_JO_NE) {
    if (!tn_jv_eq(r, a, b, out)) return false;
    *out = *out == (op == TN_JO_EQ);
    return true;
  }
  if (op == TN_JO_IN || op == TN_JO_NOT_IN) {
    if (!contains(r, a, b, out)) return false;
    *out = *out == (op == TN_JO_IN);
    return true;
  }
  if (!tn_jv_cmp(r, a, b, signs[op], &c)) return false;
  *out = op == TN_JO_LT ? c < 0 : op == TN_JO_LE ? c <= 0 : op == TN_JO_GT ? c > 0 : c >= 0;
  return true;
}
