/* parse: statements. */
#include "chat/parse_int.h"

/* Statements up to one of the tags in ends ("else|endif"), whose word is taken and put into *end. ends NULL: up to the
 * end of the template. */
static bool body(tn_jlex *x, const char *ends, tn_js *end, tn_jnode **out);

static bool in_words(const char *words, tn_js word)
{
  for (const char *p = words; *p;) {
    size_t n = strcspn(p, "|");
    if (n == word.n && memcmp(p, word.p, n) == 0) return true;
    p += n + (p[n] == '|');
  }
  return false;
}

static bool close_tag(tn_jlex *x, const char *in) { return tn_jp_expect(x, TN_JT_BLOCK_END, NULL, in); }

/* The rest of the tag, the body, and the closing tag. */
static bool whole_body(tn_jlex *x, const char *in, const char *ends, tn_jnode **out)
{
  tn_js end;
  return close_tag(x, in) && body(x, ends, &end, out) && close_tag(x, ends);
}

static bool if_tag(tn_jlex *x, tn_jnode *n)
{
  tn_js end;
  n->a = tn_jp_tuple(x, false);
  if (!n->a || !close_tag(x, "an if") || !body(x, "elif|else|endif", &end, &n->b)) return false;
  if (tn_js_is(end, "endif")) return close_tag(x, "endif");
  if (tn_js_is(end, "else")) return whole_body(x, "else", "endif", &n->c);
  n->c = tn_jp_enter(x) ? tn_jp_node(x, TN_JN_IF, n->line) : NULL;
  bool ok = n->c && if_tag(x, n->c);
  x->depth--;
  return ok;
}

static bool for_tag(tn_jlex *x, tn_jnode *n)
{
  tn_js end;
  n->a = tn_jp_target(x, false);
  if (!n->a || !tn_jp_expect(x, TN_JT_NAME, "in", "a for") || !(n->b = tn_jp_tuple(x, false))) return false;
  if (tn_jp_skip(x, TN_JT_NAME, "if") && !(n->c = tn_jp_expr(x, true))) return false;
  if (tn_jp_name(x, "recursive")) return tn_jlex_fail(x, n->line, TN_E_UNSUPPORTED, "a recursive for is not supported");
  if (!close_tag(x, "a for") || !body(x, "else|endfor", &end, &n->d)) return false;
  if (tn_js_is(end, "endfor")) return close_tag(x, "endfor");
  return whole_body(x, "else", "endfor", &n->e);
}

static bool set_tag(tn_jlex *x, tn_jnode *n)
{
  n->a = tn_jp_target(x, true);
  if (!n->a) return false;
  if (tn_jp_skip(x, TN_JT_OP, "=")) return (n->b = tn_jp_tuple(x, true)) != NULL && close_tag(x, "a set");
  n->kind = TN_JN_SET_BLOCK;
  if (tn_jp_skip(x, TN_JT_OP, "|") && !(n->b = tn_jp_filters(x, NULL, true))) return false;
  return whole_body(x, "a set", "endset", &n->c);
}

/* Names with defaults behind an opening bracket. */
static bool parameters(tn_jlex *x, tn_jnode **list)
{
  tn_jnode **end = list;
  while (!tn_jp_skip(x, TN_JT_OP, ")")) {
    if (*list && !tn_jp_expect(x, TN_JT_OP, ",", "the parameters of a macro")) return false;
    const tn_jtok *t = tn_jp_peek(x);
    if (!tn_jp_expect(x, TN_JT_NAME, NULL, "the parameters of a macro")) return false;
    if (!(*end = tn_jp_node(x, TN_JN_NAME, t->line))) return false;
    (*end)->text = t->text;
    if (tn_jp_skip(x, TN_JT_OP, "=") && !((*end)->a = tn_jp_expr(x, true))) return false;
    end = &(*end)->next;
  }
  return true;
}

static bool macro_tag(tn_jlex *x, tn_jnode *n)
{
  n->text = tn_jp_peek(x)->text;
  return tn_jp_expect(x, TN_JT_NAME, NULL, "a macro") && tn_jp_expect(x, TN_JT_OP, "(", "a macro") &&
         parameters(x, &n->a) && whole_body(x, "a macro", "endmacro", &n->b);
}

static bool call_tag(tn_jlex *x, tn_jnode *n)
{
  if (tn_jp_skip(x, TN_JT_OP, "(") && !parameters(x, &n->a)) return false;
  n->b = tn_jp_expr(x, true);
  if (n->b && n->b->kind != TN_JN_CALL)
    return tn_jlex_fail(x, n->line, TN_E_ARG, "want the call of a macro in a call block");
  return n->b && whole_body(x, "a call block", "endcall", &n->c);
}

static bool with_tag(tn_jlex *x, tn_jnode *n)
{
  tn_jnode **end = &n->a;
  while (!tn_jp_is(x, TN_JT_BLOCK_END, NULL)) {
    if (n->a && !tn_jp_expect(x, TN_JT_OP, ",", "a with")) return false;
    if (!(*end = tn_jp_node(x, TN_JN_SET, n->line))) return false;
    const tn_jtok *t = tn_jp_peek(x);
    if (!tn_jp_expect(x, TN_JT_NAME, NULL, "a with") || !tn_jp_expect(x, TN_JT_OP, "=", "a with")) return false;
    if (!((*end)->a = tn_jp_word(x, t)) || !((*end)->b = tn_jp_expr(x, true))) return false;
    end = &(*end)->next;
  }
  return whole_body(x, "a with", "endwith", &n->b);
}

static bool filter_tag(tn_jlex *x, tn_jnode *n)
{
  n->a = tn_jp_filters(x, NULL, true);
  return n->a && whole_body(x, "a filter block", "endfilter", &n->b);
}

static bool generation_tag(tn_jlex *x, tn_jnode *n) { return whole_body(x, "generation", "endgeneration", &n->a); }

static bool word_tag(tn_jlex *x, tn_jnode *n) { return close_tag(x, n->kind == TN_JN_BREAK ? "break" : "continue"); }

static const struct {
  const char *word;
  tn_jnode_kind kind;
  bool (*parse)(tn_jlex *x, tn_jnode *n);
} tags[] = {
    {"if", TN_JN_IF, if_tag},
    {"for", TN_JN_FOR, for_tag},
    {"set", TN_JN_SET, set_tag},
    {"macro", TN_JN_MACRO, macro_tag},
    {"call", TN_JN_CALL_BLOCK, call_tag},
    {"filter", TN_JN_FILTER_BLOCK, filter_tag},
    {"with", TN_JN_WITH, with_tag},
    {"generation", TN_JN_GENERATION, generation_tag},
    {"break", TN_JN_BREAK, word_tag},
    {"continue", TN_JN_CONTINUE, word_tag},
};

/* The tag whose word was just taken. */
static tn_jnode *tag(tn_jlex *x, const tn_jtok *word)
{
  static const char others[] = "include|import|from|extends|block|autoescape|trans|do";
  tn_jnode *n = tn_jp_node(x, TN_JN_TEXT, word->line);
  if (!n) return NULL;
  for (size_t i = 0; i < TN_ARRAY_LEN(tags); i++) {
    if (!tn_js_is(word->text, tags[i].word)) continue;
    n->kind = (uint8_t)tags[i].kind;
    bool ok = tn_jp_enter(x) && tags[i].parse(x, n);
    x->depth--;
    return ok ? n : NULL;
  }
  bool known = in_words(others, word->text);
  int len = (int)(word->text.n < 40 ? word->text.n : 40);
  tn_jlex_fail(x, word->line, known ? TN_E_UNSUPPORTED : TN_E_ARG, "the tag '%.*s' %s", len, word->text.p,
               known ? "is not supported" : "is unknown or closes nothing");
  return NULL;
}

static tn_jnode *print(tn_jlex *x, const tn_jtok *t)
{
  tn_jnode *n = tn_jp_one(x, TN_JN_PRINT, t->line, tn_jp_tuple(x, true));
  return n && tn_jp_expect(x, TN_JT_PRINT_END, NULL, "an expression") ? n : NULL;
}

static bool body(tn_jlex *x, const char *ends, tn_js *end, tn_jnode **out)
{
  uint32_t line = x->pos > 0 ? x->tok[x->pos - 1].line : 1; /* of the tag that begins the body */
  for (;;) {
    const tn_jtok *t = tn_jp_next(x);
    tn_jnode *n = NULL;
    if (t->kind == TN_JT_END) {
      if (ends) return tn_jlex_fail(x, line, TN_E_ARG, "a block that begins here is not closed by %s", ends);
      return true;
    }
    if (t->kind == TN_JT_DATA) {
      if ((n = tn_jp_node(x, TN_JN_TEXT, t->line))) n->text = t->text;
    } else if (t->kind == TN_JT_PRINT_BEGIN) {
      n = print(x, t);
    } else {
      const tn_jtok *word = tn_jp_peek(x);
      if (!tn_jp_expect(x, TN_JT_NAME, NULL, "a tag")) return false;
      if (ends && in_words(ends, word->text)) {
        *end = word->text;
        return true;
      }
      n = tag(x, word);
    }
    if (!n) return false;
    *out = n;
    out = &n->next;
  }
}

tn_status tn_j_parse(tn_arena *a, const char *source, size_t n, const char *name, tn_jnode **out, tn_err *err)
{
  tn_jlex x = {.arena = a, .name = name, .err = err, .status = TN_OK};
  *out = NULL;
  if (tn_jlex_all(&x, source, n)) body(&x, NULL, NULL, out);
  return x.status;
}
