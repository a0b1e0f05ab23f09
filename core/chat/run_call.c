/* run_call: arguments, macros, and the functions that are written in C. */
#include "chat/jinja.h"

/* ---------------------------------------------------------------- arguments */

typedef struct gathered {
  tn_jv positional; /* a list */
  tn_jkw *kw;
  size_t n_kw, cap_kw;
} gathered;

static bool add_kw(tn_jrun *r, gathered *g, tn_js name, tn_jv v)
{
  if (g->n_kw == g->cap_kw) {
    size_t cap = g->cap_kw ? 2 * g->cap_kw : 4;
    tn_jkw *grown = tn_j_alloc(r, cap, sizeof *grown);
    if (!grown) return false;
    if (g->n_kw) memcpy(grown, g->kw, g->n_kw * sizeof *grown);
    g->kw = grown;
    g->cap_kw = cap;
  }
  g->kw[g->n_kw++] = (tn_jkw){name, v};
  return true;
}

/* *v and **v */
static bool spread(tn_jrun *r, gathered *g, const tn_jnode *n, const tn_jv *v)
{
  const tn_jv *items;
  size_t count;
  if (n->kind == TN_JN_STAR) {
    if (!tn_jv_items(r, v, &items, &count)) return false;
    for (size_t i = 0; i < count; i++) {
      if (!tn_jlist_add(r, g->positional.list, items[i])) return false;
    }
    return true;
  }
  if (v->kind != TN_J_DICT) return tn_j_fail(r, TN_E_ARG, "argument after ** must be a mapping, not %s", tn_jv_type(v));
  for (size_t i = 0; i < v->dict->n; i++) {
    const tn_jv *key = &v->dict->v[i].key;
    if (key->kind != TN_J_STR) return tn_j_fail(r, TN_E_ARG, "keywords must be strings");
    if (!add_kw(r, g, key->s, v->dict->v[i].value)) return false;
  }
  return true;
}

bool tn_j_args(tn_jrun *r, const tn_jnode *list, tn_jargs *out)
{
  gathered g = {0};
  *out = (tn_jargs){0};
  if (!list) return true;
  if (!tn_jv_list(r, TN_J_LIST, &g.positional)) return false;
  for (const tn_jnode *n = list; n; n = n->next) {
    bool wrapped = n->kind == TN_JN_KWARG || n->kind == TN_JN_STAR || n->kind == TN_JN_STAR2;
    tn_jv v;
    if (!tn_j_eval(r, wrapped ? n->a : n, &v)) return false;
    bool ok = n->kind == TN_JN_KWARG ? add_kw(r, &g, n->text, v)
              : wrapped              ? spread(r, &g, n, &v)
                                     : tn_jlist_add(r, g.positional.list, v);
    if (!ok) return false;
  }
  *out = (tn_jargs){g.positional.list->v, g.positional.list->n, g.kw, g.n_kw};
  return true;
}

/* ---------------------------------------------------------------- functions in C */

/* The place of a name in a list of names with a space between; -1: it is not there. */
static int param_index(const char *params, tn_js name)
{
  int i = 0;
  for (const char *p = params; *p; i++) {
    size_t n = strcspn(p, " ");
    if (n == name.n && memcmp(p, name.p, n) == 0) return i;
    p += n + (p[n] == ' ');
  }
  return -1;
}

static size_t count_params(const char *params)
{
  size_t n = *params != '\0';
  for (const char *p = params; *p; p++) n += *p == ' ';
  return n;
}

static bool bind(tn_jrun *r, const char *what, const tn_jbuiltin *f, const tn_jargs *args, tn_jv *bound)
{
  size_t n = count_params(f->params);
  if (args->n > n)
    return tn_j_fail(r, TN_E_ARG, "the %s %s takes at most %zu arguments, %zu are given", what, f->name, n, args->n);
  for (size_t i = 0; i < args->n; i++) bound[i] = args->v[i];
  for (size_t i = 0; i < args->n_kw; i++) {
    const tn_jkw *kw = &args->kw[i];
    int at = param_index(f->params, kw->name), len = (int)(kw->name.n < 40 ? kw->name.n : 40);
    if (at < 0)
      return tn_j_fail(r, TN_E_UNSUPPORTED, "the %s %s has no argument '%.*s'", what, f->name, len, kw->name.p);
    if (bound[at].kind != TN_J_ABSENT)
      return tn_j_fail(r, TN_E_ARG, "the %s %s has the argument '%.*s' twice", what, f->name, len, kw->name.p);
    bound[at] = kw->value;
  }
  for (size_t i = 0; i < f->n_required; i++) {
    if (bound[i].kind == TN_J_ABSENT)
      return tn_j_fail(r, TN_E_ARG, "the %s %s needs %u arguments", what, f->name, f->n_required);
  }
  return true;
}

bool tn_j_invoke(tn_jrun *r, const char *what, const tn_jbuiltin *f, const tn_jv *self, const tn_jargs *args,
                 tn_jv *out)
{
  tn_jv bound[TN_J_MAX_PARAMS] = {0};
  if (f->params && !bind(r, what, f, args, bound)) return false;
  bool ok = tn_j_enter(r) && tn_j_tick(r, 1) && f->fn(r, self, args, bound, out);
  tn_j_leave(r);
  return ok;
}

const tn_jbuiltin *tn_j_find(const tn_jbuiltin *table, size_t n, tn_js name)
{
  for (size_t i = 0; i < n; i++) {
    if (tn_js_is(name, table[i].name)) return &table[i];
  }
  return NULL;
}

/* ---------------------------------------------------------------- macros */

static const tn_jkw *keyword(const tn_jargs *args, tn_js name)
{
  for (size_t i = 0; i < args->n_kw; i++) {
    if (tn_js_eq(args->kw[i].name, name)) return &args->kw[i];
  }
  return NULL;
}

/* What was given beyond the parameters, as varargs and kwargs. */
static bool extra(tn_jrun *r, const tn_jmacro *m, const tn_jargs *args, size_t n_params)
{
  tn_jv more, named;
  if (!tn_jv_list(r, TN_J_TUPLE, &more) || !tn_jv_dict(r, TN_J_DICT, &named)) return false;
  for (size_t i = n_params; i < args->n; i++) {
    if (!tn_jlist_add(r, more.list, args->v[i])) return false;
  }
  for (size_t i = 0; i < args->n_kw; i++) {
    const tn_jnode *p = m->params;
    while (p && !tn_js_eq(p->text, args->kw[i].name)) p = p->next;
    if (!p && !tn_jdict_set(r, named.dict, tn_jv_str(args->kw[i].name), args->kw[i].value)) return false;
  }
  return tn_j_set(r, TN_JS("varargs"), more) && tn_j_set(r, TN_JS("kwargs"), named);
}

static bool macro_params(tn_jrun *r, const tn_jmacro *m, const tn_jargs *args)
{
  size_t i = 0;
  for (const tn_jnode *p = m->params; p; p = p->next, i++) {
    const tn_jkw *kw = keyword(args, p->text);
    tn_jv v = tn_jv_undef(p->text);
    if (i < args->n)
      v = args->v[i];
    else if (kw)
      v = kw->value;
    else if (p->a && !tn_j_eval(r, p->a, &v))
      return false;
    if (!tn_j_set(r, p->text, v)) return false;
  }
  return extra(r, m, args, i) && (m->caller.kind == TN_J_ABSENT || tn_j_set(r, TN_JS("caller"), m->caller));
}

static bool call_macro(tn_jrun *r, const tn_jmacro *m, const tn_jargs *args, tn_jv *out)
{
  tn_jbuf b = {0}, *before = r->out;
  tn_jscope *outer = r->scope;
  uint32_t loops = r->loops, line = r->line;
  r->loops = 0; /* a break inside belongs to a loop inside */
  r->out = &b;
  bool ok = tn_j_open_scope(r, m->scope) && macro_params(r, m, args) && tn_j_block(r, m->body);
  r->out = before;
  r->scope = outer;
  r->loops = loops;
  if (ok) r->line = line;
  *out = tn_jv_str(tn_jbuf_str(&b));
  return ok;
}

/* {% call(x) macro(args) %}body{% endcall %}: the body is the macro caller inside the macro that is called. */
bool tn_j_call_block(tn_jrun *r, const tn_jnode *n)
{
  tn_jv callee, text, caller = {.kind = TN_J_MACRO};
  tn_jargs args;
  if (!tn_j_eval(r, n->b->a, &callee) || !tn_j_args(r, n->b->b, &args)) return false;
  if (callee.kind != TN_J_MACRO)
    return tn_j_fail(r, TN_E_UNSUPPORTED, "a call block of a %s is not supported", tn_jv_type(&callee));
  caller.macro = tn_j_alloc(r, 1, sizeof *caller.macro);
  if (!caller.macro) return false;
  *caller.macro = (tn_jmacro){.name = TN_JS("caller"), .params = n->a, .body = n->c, .scope = r->scope};
  tn_jmacro called = *callee.macro;
  called.caller = caller;
  return call_macro(r, &called, &args, &text) && tn_jv_write(r, r->out, &text);
}

bool tn_j_call(tn_jrun *r, const tn_jv *callee, const tn_jargs *args, tn_jv *out)
{
  switch (callee->kind) {
    case TN_J_MACRO: return call_macro(r, callee->macro, args, out);
    case TN_J_FUNC: return tn_j_invoke(r, "function", callee->func, NULL, args, out);
    case TN_J_METHOD: return tn_j_invoke(r, "method", callee->bound->method, &callee->bound->self, args, out);
    case TN_J_UNDEF: return tn_jv_missing(r, callee);
    default: return tn_j_fail(r, TN_E_ARG, "'%s' object is not callable", tn_jv_type(callee));
  }
}
