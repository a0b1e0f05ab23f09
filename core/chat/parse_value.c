/* parse_value: values and what follows them: .name, [item], (arguments), |filter, is test. */
#include "chat/parse_int.h"

static tn_jnode *constant(tn_jlex *x, uint32_t line, tn_jv v)
{
  tn_jnode *n = tn_jp_node(x, TN_JN_CONST, line);
  if (n) n->value = v;
  return n;
}

/* Texts that stand side by side are one. */
static tn_jnode *text(tn_jlex *x)
{
  const tn_jtok *first = tn_jp_next(x);
  tn_js s = first->text;
  while (tn_jp_is(x, TN_JT_STRING, NULL)) {
    tn_js more = tn_jp_next(x)->text;
    char *p = tn_arena_alloc(x->arena, s.n + more.n + 1);
    if (!p) {
      tn_jlex_nomem(x);
      return NULL;
    }
    memcpy(p, s.p, s.n);
    memcpy(p + s.n, more.p, more.n);
    s = (tn_js){p, NULL, s.n + more.n};
  }
  return constant(x, first->line, tn_jv_str(s));
}

/* Elements up to close, with commas between them and one allowed at the end. */
static tn_jnode *elements(tn_jlex *x, tn_jnode *list, const char *close)
{
  tn_jnode **end = &list->a;
  while (!tn_jp_skip(x, TN_JT_OP, close)) {
    if (list->a && !tn_jp_expect(x, TN_JT_OP, ",", "a list")) return NULL;
    if (tn_jp_skip(x, TN_JT_OP, close)) break;
    if (!(*end = tn_jp_expr(x, true))) return NULL;
    end = &(*end)->next;
  }
  return list;
}

static tn_jnode *pairs(tn_jlex *x, tn_jnode *dict)
{
  tn_jnode **end = &dict->a;
  while (!tn_jp_skip(x, TN_JT_OP, "}")) {
    if (dict->a && !tn_jp_expect(x, TN_JT_OP, ",", "a dict")) return NULL;
    if (tn_jp_skip(x, TN_JT_OP, "}")) break;
    uint32_t line = tn_jp_peek(x)->line;
    tn_jnode *key = tn_jp_expr(x, true);
    if (!key || !tn_jp_expect(x, TN_JT_OP, ":", "a dict")) return NULL;
    if (!(*end = tn_jp_two(x, TN_JN_PAIR, TN_JO_NONE, line, key, tn_jp_expr(x, true)))) return NULL;
    end = &(*end)->next;
  }
  return dict;
}

static tn_jnode *parenthesis(tn_jlex *x, uint32_t line)
{
  if (tn_jp_skip(x, TN_JT_OP, ")")) return tn_jp_node(x, TN_JN_TUPLE, line);
  tn_jnode *n = tn_jp_tuple(x, true);
  return n && tn_jp_expect(x, TN_JT_OP, ")", "an expression") ? n : NULL;
}

tn_jnode *tn_jp_word(tn_jlex *x, const tn_jtok *t)
{
  static const struct {
    const char *word;
    tn_jv v;
  } words[] = {{"true", {.kind = TN_J_BOOL, .b = true}},
               {"True", {.kind = TN_J_BOOL, .b = true}},
               {"false", {.kind = TN_J_BOOL, .b = false}},
               {"False", {.kind = TN_J_BOOL, .b = false}},
               {"none", {.kind = TN_J_NONE}},
               {"None", {.kind = TN_J_NONE}}};
  for (size_t i = 0; i < TN_ARRAY_LEN(words); i++) {
    if (tn_js_is(t->text, words[i].word)) return constant(x, t->line, words[i].v);
  }
  tn_jnode *n = tn_jp_node(x, TN_JN_NAME, t->line);
  if (n) n->text = t->text;
  return n;
}

tn_jnode *tn_jp_primary(tn_jlex *x)
{
  if (tn_jp_is(x, TN_JT_STRING, NULL)) return text(x);
  const tn_jtok *t = tn_jp_next(x);
  switch (t->kind) {
    case TN_JT_NAME: return tn_jp_word(x, t);
    case TN_JT_INT: return constant(x, t->line, tn_jv_int(t->i));
    case TN_JT_FLOAT: return constant(x, t->line, tn_jv_float(t->f));
    default: break;
  }
  char c = t->kind == TN_JT_OP && t->text.n == 1 ? t->text.p[0] : '\0';
  tn_jnode *n = NULL;
  if (c == '(' || c == '[' || c == '{') {
    if (tn_jp_enter(x))
      n = c == '(' ? parenthesis(x, t->line) : tn_jp_node(x, c == '[' ? TN_JN_LIST : TN_JN_DICT, t->line);
    if (n && c == '[') n = elements(x, n, "]");
    if (n && c == '{') n = pairs(x, n);
    x->depth--;
    return n;
  }
  tn_js got = tn_jp_spelled(t);
  tn_jlex_fail(x, t->line, TN_E_ARG, "want a value, found %.*s", (int)(got.n < 40 ? got.n : 40), got.p);
  return NULL;
}

/* ---------------------------------------------------------------- what follows a value */

tn_jnode *tn_jp_call_args(tn_jlex *x, bool *ok)
{
  tn_jnode *list = NULL, **end = &list;
  *ok = false;
  if (!tn_jp_enter(x)) return NULL;
  while (!tn_jp_skip(x, TN_JT_OP, ")")) {
    if (list && !tn_jp_expect(x, TN_JT_OP, ",", "the arguments of a call")) return NULL;
    if (tn_jp_skip(x, TN_JT_OP, ")")) break;
    const tn_jtok *t = tn_jp_peek(x);
    const tn_jtok *after = t->kind == TN_JT_END ? t : t + 1;
    if (tn_jp_skip(x, TN_JT_OP, "**")) {
      *end = tn_jp_one(x, TN_JN_STAR2, t->line, tn_jp_expr(x, true));
    } else if (tn_jp_skip(x, TN_JT_OP, "*")) {
      *end = tn_jp_one(x, TN_JN_STAR, t->line, tn_jp_expr(x, true));
    } else if (t->kind == TN_JT_NAME && after->kind == TN_JT_OP && tn_js_is(after->text, "=")) {
      x->pos += 2;
      *end = tn_jp_one(x, TN_JN_KWARG, t->line, tn_jp_expr(x, true));
      if (*end) (*end)->text = t->text;
    } else {
      *end = tn_jp_expr(x, true);
    }
    if (!*end) return NULL;
    end = &(*end)->next;
  }
  x->depth--;
  *ok = true;
  return list;
}

/* a : b : c behind an opening bracket, or a single index. */
static tn_jnode *subscript(tn_jlex *x, uint32_t line)
{
  tn_jnode *part[3] = {0};
  int n = 0;
  bool slice = false;
  while (!tn_jp_op(x, "]") && n < 3) {
    if (tn_jp_skip(x, TN_JT_OP, ":")) {
      slice = true;
      n++;
      continue;
    }
    if (part[n] || !(part[n] = tn_jp_tuple(x, true))) break;
  }
  if (x->status != TN_OK || !tn_jp_expect(x, TN_JT_OP, "]", "a subscript")) return NULL;
  if (!slice && !part[0]) {
    tn_jlex_fail(x, line, TN_E_ARG, "a subscript is empty");
    return NULL;
  }
  if (!slice) return part[0];
  tn_jnode *s = tn_jp_node(x, TN_JN_SLICE, line);
  if (!s) return NULL;
  s->a = part[0];
  s->b = part[1];
  s->c = part[2];
  return s;
}

/* .name or .0 */
tn_jnode *tn_jp_dotted(tn_jlex *x, tn_jnode *n)
{
  const tn_jtok *t = tn_jp_next(x);
  if (t->kind == TN_JT_INT)
    return tn_jp_two(x, TN_JN_ITEM, TN_JO_NONE, t->line, n, constant(x, t->line, tn_jv_int(t->i)));
  if (t->kind != TN_JT_NAME) {
    tn_jlex_fail(x, t->line, TN_E_ARG, "want a name behind the dot");
    return NULL;
  }
  n = tn_jp_one(x, TN_JN_ATTR, t->line, n);
  if (n) n->text = t->text;
  return n;
}

static tn_jnode *call(tn_jlex *x, tn_jnode *callee, uint32_t line)
{
  bool ok;
  tn_jnode *args = tn_jp_call_args(x, &ok), *n = ok ? tn_jp_one(x, TN_JN_CALL, line, callee) : NULL;
  if (n) n->b = args;
  return n;
}

tn_jnode *tn_jp_postfix(tn_jlex *x, tn_jnode *n)
{
  while (n) {
    uint32_t line = tn_jp_peek(x)->line;
    if (tn_jp_skip(x, TN_JT_OP, ".")) {
      n = tn_jp_dotted(x, n);
    } else if (tn_jp_skip(x, TN_JT_OP, "[")) {
      tn_jnode *key = tn_jp_enter(x) ? subscript(x, line) : NULL;
      x->depth--;
      n = tn_jp_two(x, TN_JN_ITEM, TN_JO_NONE, line, n, key);
    } else if (tn_jp_skip(x, TN_JT_OP, "(")) {
      n = call(x, n, line);
    } else {
      break;
    }
  }
  return n;
}

/* The name of a filter or test, "a.b" too. */
static bool named(tn_jlex *x, tn_jnode *n)
{
  const tn_jtok *t = tn_jp_next(x);
  if (t->kind != TN_JT_NAME) return tn_jlex_fail(x, t->line, TN_E_ARG, "want the name of a filter or test");
  n->text = t->text;
  return true;
}

static tn_jnode *filter(tn_jlex *x, tn_jnode *base)
{
  tn_jnode *n = tn_jp_node(x, TN_JN_FILTER, tn_jp_peek(x)->line);
  bool ok = n && named(x, n);
  if (!ok) return NULL;
  n->a = base;
  if (tn_jp_skip(x, TN_JT_OP, "(")) n->b = tn_jp_call_args(x, &ok);
  return ok ? n : NULL;
}

tn_jnode *tn_jp_filters(tn_jlex *x, tn_jnode *base, bool needed)
{
  tn_jnode *n = base;
  if (needed && !(n = filter(x, n))) return NULL;
  while (tn_jp_skip(x, TN_JT_OP, "|")) {
    if (!(n = filter(x, n))) return NULL;
  }
  return n;
}

/* Can the token begin the one argument of a test that has no brackets, as in "is divisibleby 3"? */
static bool begins_argument(const tn_jlex *x)
{
  const tn_jtok *t = tn_jp_peek(x);
  if (t->kind == TN_JT_NAME) return !tn_js_is(t->text, "else") && !tn_js_is(t->text, "or") && !tn_js_is(t->text, "and");
  return t->kind == TN_JT_STRING || t->kind == TN_JT_INT || t->kind == TN_JT_FLOAT || tn_jp_op(x, "[") ||
         tn_jp_op(x, "{");
}

static tn_jnode *test(tn_jlex *x, tn_jnode *base)
{
  uint32_t line = tn_jp_peek(x)->line;
  bool negated = tn_jp_skip(x, TN_JT_NAME, "not");
  tn_jnode *n = tn_jp_one(x, TN_JN_TEST, line, base);
  bool ok = n && named(x, n);
  if (!ok) return NULL;
  if (tn_jp_skip(x, TN_JT_OP, "(")) {
    n->b = tn_jp_call_args(x, &ok);
  } else if (begins_argument(x)) {
    if (tn_jp_name(x, "is")) {
      tn_jlex_fail(x, line, TN_E_ARG, "a test behind a test: put brackets around the first");
      return NULL;
    }
    n->b = tn_jp_postfix(x, tn_jp_primary(x));
    ok = n->b != NULL;
  }
  if (!ok) return NULL;
  return negated ? tn_jp_one(x, TN_JN_NOT, line, n) : n;
}

tn_jnode *tn_jp_tail(tn_jlex *x, tn_jnode *n)
{
  while (n) {
    uint32_t line = tn_jp_peek(x)->line;
    if (tn_jp_skip(x, TN_JT_OP, "|"))
      n = filter(x, n);
    else if (tn_jp_skip(x, TN_JT_NAME, "is"))
      n = test(x, n);
    else if (tn_jp_skip(x, TN_JT_OP, "("))
      n = call(x, n, line);
    else
      break;
  }
  return n;
}
