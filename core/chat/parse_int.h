/* parse_int: what the two halves of the parser share: parse.c takes statements, parse_expr.c expressions. Each function
 * returns NULL after it has filled the lexer's error. */
#ifndef TN_CORE_CHAT_PARSE_INT_H
#define TN_CORE_CHAT_PARSE_INT_H

#include "chat/lexer.h"

#define TN_J_PARSE_DEPTH 120u /* of blocks and brackets inside each other */

static inline const tn_jtok *tn_jp_peek(const tn_jlex *x) { return &x->tok[x->pos]; }
const tn_jtok *tn_jp_next(tn_jlex *x);                                /* stays on END */
bool tn_jp_is(const tn_jlex *x, tn_jtok_kind kind, const char *text); /* text NULL: any */
static inline bool tn_jp_op(const tn_jlex *x, const char *op) { return tn_jp_is(x, TN_JT_OP, op); }
static inline bool tn_jp_name(const tn_jlex *x, const char *name) { return tn_jp_is(x, TN_JT_NAME, name); }
bool tn_jp_skip(tn_jlex *x, tn_jtok_kind kind, const char *text); /* was it there? */
bool tn_jp_expect(tn_jlex *x, tn_jtok_kind kind, const char *text, const char *in);
tn_jnode *tn_jp_node(tn_jlex *x, tn_jnode_kind kind, uint32_t line);
bool tn_jp_enter(tn_jlex *x);
/* How a message calls a token. */
tn_js tn_jp_spelled(const tn_jtok *t);
/* A node with children; NULL also where a child is. */
tn_jnode *tn_jp_one(tn_jlex *x, tn_jnode_kind kind, uint32_t line, tn_jnode *a);
tn_jnode *tn_jp_two(tn_jlex *x, tn_jnode_kind kind, tn_jop op, uint32_t line, tn_jnode *a, tn_jnode *b);

/* A value without what follows it; what follows n, up to and without filters; filters and tests. */
tn_jnode *tn_jp_primary(tn_jlex *x);
tn_jnode *tn_jp_postfix(tn_jlex *x, tn_jnode *n);
tn_jnode *tn_jp_tail(tn_jlex *x, tn_jnode *n);
/* A name or one of the constants that are spelled as names; .name or .0 behind n. */
tn_jnode *tn_jp_word(tn_jlex *x, const tn_jtok *t);
tn_jnode *tn_jp_dotted(tn_jlex *x, tn_jnode *n);

/* conditional: a if b else c may stand there. */
tn_jnode *tn_jp_expr(tn_jlex *x, bool conditional);
/* a, b, c is a tuple; a alone is itself. */
tn_jnode *tn_jp_tuple(tn_jlex *x, bool conditional);
/* Behind the opening bracket, up to and with the closing one; *ok false after an error. NULL: no arguments. */
tn_jnode *tn_jp_call_args(tn_jlex *x, bool *ok);
/* | name(args) and so on behind base, which may be NULL; at least one when needed. */
tn_jnode *tn_jp_filters(tn_jlex *x, tn_jnode *base, bool needed);
/* A name, a.b of a namespace, or several with commas. */
tn_jnode *tn_jp_target(tn_jlex *x, bool with_attr);

#endif
