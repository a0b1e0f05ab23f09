/* parse_tokens: tokens taken one by one, and nodes made. */
#include "chat/parse_int.h"

const tn_jtok *tn_jp_next(tn_jlex *x)
{
  const tn_jtok *t = tn_jp_peek(x);
  if (t->kind != TN_JT_END) x->pos++;
  return t;
}

bool tn_jp_is(const tn_jlex *x, tn_jtok_kind kind, const char *text)
{
  const tn_jtok *t = tn_jp_peek(x);
  return t->kind == kind && (!text || tn_js_is(t->text, text));
}

bool tn_jp_skip(tn_jlex *x, tn_jtok_kind kind, const char *text)
{
  bool there = tn_jp_is(x, kind, text);
  if (there) tn_jp_next(x);
  return there;
}

/* How a message calls a token. */
tn_js tn_jp_spelled(const tn_jtok *t)
{
  switch (t->kind) {
    case TN_JT_END: return TN_JS("the end of the template");
    case TN_JT_DATA: return TN_JS("text");
    case TN_JT_BLOCK_BEGIN: return TN_JS("{%");
    case TN_JT_BLOCK_END: return TN_JS("%}");
    case TN_JT_PRINT_BEGIN: return TN_JS("{{");
    case TN_JT_PRINT_END: return TN_JS("}}");
    case TN_JT_INT:
    case TN_JT_FLOAT: return TN_JS("a number");
    default: return t->text;
  }
}

bool tn_jp_expect(tn_jlex *x, tn_jtok_kind kind, const char *text, const char *in)
{
  if (tn_jp_skip(x, kind, text)) return true;
  const tn_jtok *t = tn_jp_peek(x);
  tn_js got = tn_jp_spelled(t);
  const char *want = text ? text : kind == TN_JT_BLOCK_END ? "%}" : kind == TN_JT_PRINT_END ? "}}" : "a name";
  return tn_jlex_fail(x, t->line, TN_E_ARG, "want %s in %s, found %.*s", want, in, (int)(got.n < 40 ? got.n : 40),
                      got.p);
}

tn_jnode *tn_jp_node(tn_jlex *x, tn_jnode_kind kind, uint32_t line)
{
  tn_jnode *n = tn_arena_alloc(x->arena, sizeof *n);
  if (!n) {
    tn_jlex_nomem(x);
    return NULL;
  }
  n->kind = (uint8_t)kind;
  n->line = line;
  return n;
}

bool tn_jp_enter(tn_jlex *x)
{
  if (++x->depth <= TN_J_PARSE_DEPTH) return true;
  return tn_jlex_fail(x, tn_jp_peek(x)->line, TN_E_ARG, "over %u blocks or brackets inside each other",
                      TN_J_PARSE_DEPTH);
}

tn_jnode *tn_jp_two(tn_jlex *x, tn_jnode_kind kind, tn_jop op, uint32_t line, tn_jnode *a, tn_jnode *b)
{
  tn_jnode *n = a && b ? tn_jp_node(x, kind, line) : NULL;
  if (!n) return NULL;
  n->op = (uint8_t)op;
  n->a = a;
  n->b = b;
  return n;
}

tn_jnode *tn_jp_one(tn_jlex *x, tn_jnode_kind kind, uint32_t line, tn_jnode *a)
{
  tn_jnode *n = a ? tn_jp_node(x, kind, line) : NULL;
  if (n) n->a = a;
  return n;
}
