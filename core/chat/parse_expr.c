/* parse_expr: expressions. From the loosest to the tightest: a if b else c, or, and, not, comparisons, + -, ~, * / // %,
 * **, signs. */
#include "chat/parse_int.h"

static tn_jnode *unary(tn_jlex *x, bool with_filter)
{
  const tn_jtok *t = tn_jp_peek(x);
  tn_jnode *n;
  if (tn_jp_op(x, "-") || tn_jp_op(x, "+")) {
    bool neg = tn_js_is(tn_jp_next(x)->text, "-");
    n = tn_jp_enter(x) ? tn_jp_one(x, neg ? TN_JN_NEG : TN_JN_POS, t->line, unary(x, false)) : NULL;
    x->depth--;
  } else {
    n = tn_jp_primary(x);
  }
  n = tn_jp_postfix(x, n);
  return with_filter ? tn_jp_tail(x, n) : n;
}

typedef struct operators {
  const char *text[4];
  tn_jop op[4];
} operators;

/* The level's operator that stands here is taken; TN_JO_NONE: none does. */
static tn_jop taken(tn_jlex *x, const operators *level)
{
  for (int i = 0; i < 4 && level->text[i]; i++) {
    if (tn_jp_skip(x, TN_JT_OP, level->text[i])) return level->op[i];
  }
  return TN_JO_NONE;
}

/* Left to right: ** binds tightest, then * / // %. */
static tn_jnode *power_or_product(tn_jlex *x, bool product)
{
  static const operators levels[] = {{{"**"}, {TN_JO_POW}},
                                     {{"*", "/", "//", "%"}, {TN_JO_MUL, TN_JO_DIV, TN_JO_FLOORDIV, TN_JO_MOD}}};
  tn_jnode *n = product ? power_or_product(x, false) : unary(x, true);
  while (n) {
    uint32_t line = tn_jp_peek(x)->line;
    tn_jop op = taken(x, &levels[product]);
    if (op == TN_JO_NONE) break;
    n = tn_jp_two(x, TN_JN_BINARY, op, line, n, product ? power_or_product(x, false) : unary(x, true));
  }
  return n;
}

static tn_jnode *concatenation(tn_jlex *x)
{
  tn_jnode *first = power_or_product(x, true);
  if (!first || !tn_jp_op(x, "~")) return first;
  tn_jnode *n = tn_jp_one(x, TN_JN_CONCAT, first->line, first), **end = &first->next;
  while (n && tn_jp_skip(x, TN_JT_OP, "~")) {
    if (!(*end = power_or_product(x, true))) return NULL;
    end = &(*end)->next;
  }
  return n;
}

static tn_jnode *sum(tn_jlex *x)
{
  static const operators level = {{"+", "-"}, {TN_JO_ADD, TN_JO_SUB}};
  tn_jnode *n = concatenation(x);
  while (n) {
    uint32_t line = tn_jp_peek(x)->line;
    tn_jop op = taken(x, &level);
    if (op == TN_JO_NONE) break;
    n = tn_jp_two(x, TN_JN_BINARY, op, line, n, concatenation(x));
  }
  return n;
}

static tn_jop comparison(tn_jlex *x)
{
  static const operators a = {{"==", "!=", "<", "<="}, {TN_JO_EQ, TN_JO_NE, TN_JO_LT, TN_JO_LE}},
                         b = {{">", ">="}, {TN_JO_GT, TN_JO_GE}};
  tn_jop op = taken(x, &a);
  if (op == TN_JO_NONE) op = taken(x, &b);
  if (op != TN_JO_NONE) return op;
  if (tn_jp_skip(x, TN_JT_NAME, "in")) return TN_JO_IN;
  const tn_jtok *t = tn_jp_peek(x);
  if (!tn_jp_name(x, "not") || t[1].kind != TN_JT_NAME || !tn_js_is(t[1].text, "in")) return TN_JO_NONE;
  x->pos += 2;
  return TN_JO_NOT_IN;
}

static tn_jnode *compare(tn_jlex *x)
{
  tn_jnode *n = sum(x), *all = NULL, **end = NULL;
  while (n) {
    uint32_t line = tn_jp_peek(x)->line;
    tn_jop op = comparison(x);
    if (op == TN_JO_NONE) break;
    if (!all) {
      if (!(all = tn_jp_one(x, TN_JN_COMPARE, line, n))) return NULL;
      end = &all->b;
    }
    if (!(*end = tn_jp_one(x, TN_JN_OPERAND, line, sum(x)))) return NULL;
    (*end)->op = (uint8_t)op;
    end = &(*end)->next;
  }
  return all ? all : n;
}

static tn_jnode *negation(tn_jlex *x)
{
  uint32_t line = tn_jp_peek(x)->line;
  if (!tn_jp_skip(x, TN_JT_NAME, "not")) return compare(x);
  tn_jnode *n = tn_jp_enter(x) ? tn_jp_one(x, TN_JN_NOT, line, negation(x)) : NULL;
  x->depth--;
  return n;
}

static tn_jnode *conjunction(tn_jlex *x)
{
  tn_jnode *n = negation(x);
  while (n && tn_jp_name(x, "and")) {
    uint32_t line = tn_jp_next(x)->line;
    n = tn_jp_two(x, TN_JN_AND, TN_JO_NONE, line, n, negation(x));
  }
  return n;
}

static tn_jnode *disjunction(tn_jlex *x)
{
  tn_jnode *n = conjunction(x);
  while (n && tn_jp_name(x, "or")) {
    uint32_t line = tn_jp_next(x)->line;
    n = tn_jp_two(x, TN_JN_OR, TN_JO_NONE, line, n, conjunction(x));
  }
  return n;
}

tn_jnode *tn_jp_expr(tn_jlex *x, bool conditional)
{
  tn_jnode *n = tn_jp_enter(x) ? disjunction(x) : NULL;
  while (n && conditional && tn_jp_name(x, "if")) {
    uint32_t line = tn_jp_next(x)->line;
    tn_jnode *cond = disjunction(x), *otherwise = NULL;
    if (cond && tn_jp_skip(x, TN_JT_NAME, "else") && !(otherwise = tn_jp_expr(x, true))) return NULL;
    n = tn_jp_two(x, TN_JN_COND, TN_JO_NONE, line, n, cond);
    if (n) n->c = otherwise;
  }
  x->depth--;
  return n;
}

/* Can no further element follow? */
static bool ends_tuple(const tn_jlex *x)
{
  tn_jtok_kind k = tn_jp_peek(x)->kind;
  return k == TN_JT_END || k == TN_JT_BLOCK_END || k == TN_JT_PRINT_END || tn_jp_op(x, ")") || tn_jp_op(x, "]") ||
         tn_jp_op(x, ":") || tn_jp_name(x, "in") || tn_jp_name(x, "recursive");
}

tn_jnode *tn_jp_tuple(tn_jlex *x, bool conditional)
{
  tn_jnode *first = tn_jp_expr(x, conditional);
  if (!first || !tn_jp_op(x, ",")) return first;
  tn_jnode *n = tn_jp_one(x, TN_JN_TUPLE, first->line, first), **end = &first->next;
  while (n && tn_jp_skip(x, TN_JT_OP, ",") && !ends_tuple(x)) {
    if (!(*end = tn_jp_expr(x, conditional))) return NULL;
    end = &(*end)->next;
  }
  return n;
}

static tn_jnode *single_target(tn_jlex *x, bool with_attr)
{
  const tn_jtok *t = tn_jp_peek(x);
  if (tn_jp_skip(x, TN_JT_OP, "(")) {
    tn_jnode *n = tn_jp_enter(x) ? tn_jp_target(x, with_attr) : NULL;
    x->depth--;
    return n && tn_jp_expect(x, TN_JT_OP, ")", "what is assigned to") ? n : NULL;
  }
  if (!tn_jp_expect(x, TN_JT_NAME, NULL, "what is assigned to")) return NULL;
  tn_jnode *n = tn_jp_word(x, t);
  if (n && n->kind != TN_JN_NAME) {
    tn_jlex_fail(x, t->line, TN_E_ARG, "%.*s cannot be assigned to", (int)t->text.n, t->text.p);
    return NULL;
  }
  return n && with_attr && tn_jp_skip(x, TN_JT_OP, ".") ? tn_jp_dotted(x, n) : n;
}

tn_jnode *tn_jp_target(tn_jlex *x, bool with_attr)
{
  tn_jnode *first = single_target(x, with_attr);
  if (!first || !tn_jp_op(x, ",")) return first;
  tn_jnode *n = tn_jp_one(x, TN_JN_TUPLE, first->line, first), **end = &first->next;
  while (n && tn_jp_skip(x, TN_JT_OP, ",") && !ends_tuple(x) && !tn_jp_op(x, "=")) {
    if (!(*end = single_target(x, with_attr))) return NULL;
    end = &(*end)->next;
  }
  return n;
}
