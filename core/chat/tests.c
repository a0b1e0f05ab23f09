/* tests: what stands behind "is". */
#include "chat/jinja.h"

#define ARGS tn_jrun *r, const tn_jv *self, const tn_jargs *all, const tn_jv *a, tn_jv *out
#define UNUSED (void)r, (void)all, (void)a

static bool yes(tn_jv *out, bool b)
{
  *out = tn_jv_bool(b);
  return true;
}

static bool t_defined(ARGS) { return UNUSED, yes(out, self->kind != TN_J_UNDEF); }
static bool t_undefined(ARGS) { return UNUSED, yes(out, self->kind == TN_J_UNDEF); }
static bool t_none(ARGS) { return UNUSED, yes(out, self->kind == TN_J_NONE); }
static bool t_boolean(ARGS) { return UNUSED, yes(out, self->kind == TN_J_BOOL); }
static bool t_true(ARGS) { return UNUSED, yes(out, self->kind == TN_J_BOOL && self->b); }
static bool t_false(ARGS) { return UNUSED, yes(out, self->kind == TN_J_BOOL && !self->b); }
static bool t_integer(ARGS) { return UNUSED, yes(out, self->kind == TN_J_INT); }
static bool t_float(ARGS) { return UNUSED, yes(out, self->kind == TN_J_FLOAT); }
static bool t_string(ARGS) { return UNUSED, yes(out, self->kind == TN_J_STR); }
static bool t_mapping(ARGS) { return UNUSED, yes(out, self->kind == TN_J_DICT); }

static bool t_number(ARGS)
{
  double f;
  return UNUSED, yes(out, tn_jv_number(self, &f));
}

static bool is_sequence(const tn_jv *v)
{
  return v->kind == TN_J_STR || v->kind == TN_J_LIST || v->kind == TN_J_TUPLE || v->kind == TN_J_DICT ||
         v->kind == TN_J_UNDEF;
}

static bool t_sequence(ARGS) { return UNUSED, yes(out, is_sequence(self)); }

static bool t_iterable(ARGS)
{
  return UNUSED, yes(out, is_sequence(self) || self->kind == TN_J_GEN || self->kind == TN_J_LOOP);
}

static bool t_callable(ARGS)
{
  return UNUSED, yes(out, self->kind == TN_J_MACRO || self->kind == TN_J_FUNC || self->kind == TN_J_METHOD ||
                              self->kind == TN_J_UNDEF);
}

static bool compared(tn_jrun *r, tn_jop op, const tn_jv *x, const tn_jv *y, tn_jv *out)
{
  bool b;
  return tn_j_compare(r, op, x, y, &b) && yes(out, b);
}

static bool t_eq(ARGS) { return UNUSED, compared(r, TN_JO_EQ, self, &a[0], out); }
static bool t_ne(ARGS) { return UNUSED, compared(r, TN_JO_NE, self, &a[0], out); }
static bool t_lt(ARGS) { return UNUSED, compared(r, TN_JO_LT, self, &a[0], out); }
static bool t_le(ARGS) { return UNUSED, compared(r, TN_JO_LE, self, &a[0], out); }
static bool t_gt(ARGS) { return UNUSED, compared(r, TN_JO_GT, self, &a[0], out); }
static bool t_ge(ARGS) { return UNUSED, compared(r, TN_JO_GE, self, &a[0], out); }
static bool t_in(ARGS) { return UNUSED, compared(r, TN_JO_IN, self, &a[0], out); }

static bool remainder_is(tn_jrun *r, const tn_jv *v, tn_jv by, int64_t want, tn_jv *out)
{
  tn_jv rest;
  double f;
  return tn_j_binary(r, TN_JO_MOD, v, &by, &rest) && tn_jv_number(&rest, &f) ? yes(out, f == (double)want) : false;
}

/* A text on the left of % would be formatted. */
static bool number_only(tn_jrun *r, const tn_jv *v)
{
  return v->kind != TN_J_STR || tn_j_fail(r, TN_E_ARG, "a remainder of a str");
}

static bool t_odd(ARGS) { return UNUSED, number_only(r, self) && remainder_is(r, self, tn_jv_int(2), 1, out); }
static bool t_even(ARGS) { return UNUSED, number_only(r, self) && remainder_is(r, self, tn_jv_int(2), 0, out); }
static bool t_divisibleby(ARGS) { return UNUSED, number_only(r, self) && remainder_is(r, self, a[0], 0, out); }

static bool t_sameas(ARGS)
{
  bool b = self->kind == a[0].kind;
  UNUSED;
  if (b && !tn_jv_eq(r, self, &a[0], &b)) return false;
  bool boxed = self->kind == TN_J_LIST || self->kind == TN_J_TUPLE || self->kind == TN_J_DICT;
  return yes(out, boxed ? b && self->list == a[0].list : b);
}

static bool case_is(tn_jrun *r, const tn_jv *v, tn_jclass c, tn_jv *out)
{
  tn_js s;
  bool b;
  return tn_jv_text(r, v, &s) && tn_js_class(r, s, c, &b) && yes(out, b);
}

static bool t_upper(ARGS) { return UNUSED, case_is(r, self, TN_JC_UPPER, out); }
static bool t_lower(ARGS) { return UNUSED, case_is(r, self, TN_JC_LOWER, out); }
static bool t_filter(ARGS) { return UNUSED, yes(out, self->kind == TN_J_STR && tn_j_filter(self->s) != NULL); }
static bool t_test(ARGS) { return UNUSED, yes(out, self->kind == TN_J_STR && tn_j_test(self->s) != NULL); }

static const tn_jbuiltin tests[] = {
    {"defined", "", t_defined, 0},
    {"undefined", "", t_undefined, 0},
    {"none", "", t_none, 0},
    {"boolean", "", t_boolean, 0},
    {"true", "", t_true, 0},
    {"false", "", t_false, 0},
    {"integer", "", t_integer, 0},
    {"float", "", t_float, 0},
    {"number", "", t_number, 0},
    {"string", "", t_string, 0},
    {"mapping", "", t_mapping, 0},
    {"sequence", "", t_sequence, 0},
    {"iterable", "", t_iterable, 0},
    {"callable", "", t_callable, 0},
    {"eq", "other", t_eq, 1},
    {"equalto", "other", t_eq, 1},
    {"==", "other", t_eq, 1},
    {"ne", "other", t_ne, 1},
    {"!=", "other", t_ne, 1},
    {"lt", "other", t_lt, 1},
    {"lessthan", "other", t_lt, 1},
    {"<", "other", t_lt, 1},
    {"le", "other", t_le, 1},
    {"<=", "other", t_le, 1},
    {"gt", "other", t_gt, 1},
    {"greaterthan", "other", t_gt, 1},
    {">", "other", t_gt, 1},
    {"ge", "other", t_ge, 1},
    {">=", "other", t_ge, 1},
    {"in", "seq", t_in, 1},
    {"odd", "", t_odd, 0},
    {"even", "", t_even, 0},
    {"divisibleby", "num", t_divisibleby, 1},
    {"sameas", "other", t_sameas, 1},
    {"upper", "", t_upper, 0},
    {"lower", "", t_lower, 0},
    {"filter", "", t_filter, 0},
    {"test", "", t_test, 0},
};

const tn_jbuiltin *tn_j_test(tn_js name) { return tn_j_find(tests, TN_ARRAY_LEN(tests), name); }
