/* run_expr: expressions to values. */
#include "chat/jinja.h"

static bool name(tn_jrun *r, const tn_jnode *n, tn_jv *out)
{
  const tn_jv *v = tn_j_lookup(r, n->text);
  const tn_jbuiltin *f = v ? NULL : tn_j_global(n->text);
  *out = v ? *v : f ? (tn_jv){.kind = TN_J_FUNC, .func = f} : tn_jv_undef(n->text);
  return true;
}

static bool sequence(tn_jrun *r, const tn_jnode *n, tn_jv *out)
{
  if (!tn_jv_list(r, n->kind == TN_JN_LIST ? TN_J_LIST : TN_J_TUPLE, out)) return false;
  for (const tn_jnode *e = n->a; e; e = e->next) {
    tn_jv v;
    if (!tn_j_eval(r, e, &v) || !tn_jlist_add(r, out->list, v)) return false;
  }
  return true;
}

static bool dict(tn_jrun *r, const tn_jnode *n, tn_jv *out)
{
  if (!tn_jv_dict(r, TN_J_DICT, out)) return false;
  for (const tn_jnode *e = n->a; e; e = e->next) {
    tn_jv key, v;
    if (!tn_j_eval(r, e->a, &key) || !tn_j_eval(r, e->b, &v) || !tn_jdict_set(r, out->dict, key, v)) return false;
  }
  return true;
}

static bool sign(tn_jrun *r, const tn_jnode *n, tn_jv *out)
{
  tn_jv v;
  double f;
  if (!tn_j_eval(r, n->a, &v)) return false;
  if (v.kind == TN_J_UNDEF) return tn_jv_missing(r, &v);
  if (!tn_jv_number(&v, &f))
    return tn_j_fail(r, TN_E_ARG, "bad operand type for unary %c: '%s'", n->kind == TN_JN_NEG ? '-' : '+',
                     tn_jv_type(&v));
  const tn_jv minus = tn_jv_int(n->kind == TN_JN_NEG ? -1 : 1);
  return tn_j_binary(r, TN_JO_MUL, &v, &minus, out);
}

static bool both(tn_jrun *r, const tn_jnode *n, tn_jv *out)
{
  if (!tn_j_eval(r, n->a, out)) return false;
  return tn_jv_true(out) == (n->kind == TN_JN_AND) ? tn_j_eval(r, n->b, out) : true;
}

static bool concat(tn_jrun *r, const tn_jnode *n, tn_jv *out)
{
  tn_jbuf b = {0};
  for (const tn_jnode *e = n->a; e; e = e->next) {
    tn_jv v;
    if (!tn_j_eval(r, e, &v) || !tn_jv_write(r, &b, &v)) return false;
  }
  *out = tn_jv_str(tn_jbuf_str(&b));
  return true;
}

/* a < b <= c: each pair in turn, up to the first that does not hold. */
static bool compare(tn_jrun *r, const tn_jnode *n, tn_jv *out)
{
  tn_jv left, right;
  bool holds = true;
  if (!tn_j_eval(r, n->a, &left)) return false;
  for (const tn_jnode *e = n->b; holds && e; e = e->next, left = right) {
    if (!tn_j_eval(r, e->a, &right) || !tn_j_compare(r, (tn_jop)e->op, &left, &right, &holds)) return false;
  }
  *out = tn_jv_bool(holds);
  return true;
}

static bool conditional(tn_jrun *r, const tn_jnode *n, tn_jv *out)
{
  tn_jv v;
  if (!tn_j_eval(r, n->b, &v)) return false; /* then a if b else c */
  const tn_jnode *chosen = tn_jv_true(&v) ? n->a : n->c;
  if (chosen) return tn_j_eval(r, chosen, out);
  *out = tn_jv_undef(TN_JS("the inline if-expression without an else"));
  return true;
}

static bool item(tn_jrun *r, const tn_jnode *n, tn_jv *out)
{
  tn_jv v, key, bounds[3] = {0};
  if (!tn_j_eval(r, n->a, &v)) return false;
  if (n->b->kind != TN_JN_SLICE) return tn_j_eval(r, n->b, &key) && tn_j_item(r, &v, &key, out);
  const tn_jnode *parts[3] = {n->b->a, n->b->b, n->b->c};
  for (int i = 0; i < 3; i++) {
    if (parts[i] && !tn_j_eval(r, parts[i], &bounds[i])) return false;
  }
  return tn_j_slice(r, &v, bounds, out);
}

static bool call(tn_jrun *r, const tn_jnode *n, tn_jv *out)
{
  tn_jv callee;
  tn_jargs args;
  return tn_j_eval(r, n->a, &callee) && tn_j_args(r, n->b, &args) && tn_j_call(r, &callee, &args, out);
}

static bool filter(tn_jrun *r, const tn_jnode *n, tn_jv *out)
{
  tn_jv v;
  tn_jargs args;
  return tn_j_eval(r, n->a, &v) && tn_j_args(r, n->b, &args) && tn_j_apply_filter(r, n->text, &v, &args, out);
}

static bool test(tn_jrun *r, const tn_jnode *n, tn_jv *out)
{
  tn_jv v;
  tn_jargs args;
  bool holds = false;
  if (!tn_j_eval(r, n->a, &v) || !tn_j_args(r, n->b, &args) || !tn_j_apply_test(r, n->text, &v, &args, &holds))
    return false;
  *out = tn_jv_bool(holds);
  return true;
}

static bool evaluate(tn_jrun *r, const tn_jnode *n, tn_jv *out)
{
  tn_jv a, b;
  switch (n->kind) {
    case TN_JN_CONST: *out = n->value; return true;
    case TN_JN_NAME: return name(r, n, out);
    case TN_JN_LIST:
    case TN_JN_TUPLE: return sequence(r, n, out);
    case TN_JN_DICT: return dict(r, n, out);
    case TN_JN_NEG:
    case TN_JN_POS: return sign(r, n, out);
    case TN_JN_NOT:
      if (!tn_j_eval(r, n->a, &a)) return false;
      *out = tn_jv_bool(!tn_jv_true(&a));
      return true;
    case TN_JN_AND:
    case TN_JN_OR: return both(r, n, out);
    case TN_JN_BINARY:
      return tn_j_eval(r, n->a, &a) && tn_j_eval(r, n->b, &b) && tn_j_binary(r, (tn_jop)n->op, &a, &b, out);
    case TN_JN_CONCAT: return concat(r, n, out);
    case TN_JN_COMPARE: return compare(r, n, out);
    case TN_JN_COND: return conditional(r, n, out);
    case TN_JN_ATTR: return tn_j_eval(r, n->a, &a) && tn_j_attr(r, &a, n->text, out);
    case TN_JN_ITEM: return item(r, n, out);
    case TN_JN_CALL: return call(r, n, out);
    case TN_JN_FILTER: return filter(r, n, out);
    case TN_JN_TEST: return test(r, n, out);
    default: return tn_j_fail(r, TN_E_INTERNAL, "a node of kind %u is no expression", n->kind);
  }
}

bool tn_j_eval(tn_jrun *r, const tn_jnode *n, tn_jv *out)
{
  bool ok = tn_j_enter(r) && tn_j_tick(r, 1);
  if (ok) {
    r->line = n->line;
    ok = evaluate(r, n, out);
  }
  tn_j_leave(r);
  return ok;
}
