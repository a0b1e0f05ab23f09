/* run: statements. Names are looked up from the innermost scope outwards; a for, a macro and the blocks with a body of
 * their own open a scope, an if does not. */
#include <stdarg.h>
#include <stdio.h>

#include "chat/jinja.h"

/* ---------------------------------------------------------------- errors and limits */

bool tn_j_fail(tn_jrun *r, tn_status code, const char *fmt, ...)
{
  char text[400];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  r->status = tn_fail(r->err, code, "chat template of %s, line %u: %s", r->name, r->line, text);
  return false;
}

void *tn_j_alloc(tn_jrun *r, size_t n, size_t size)
{
  size_t bytes = SIZE_MAX;
  void *p = tn_mul_size(n, size, &bytes) ? tn_arena_alloc(&r->arena, bytes) : NULL;
  if (p) return p;
  if (bytes > r->arena.limit - r->arena.used)
    tn_j_fail(r, TN_E_FULL, "rendering takes over %zu bytes of memory", r->limits.memory_bytes);
  else
    r->status = tn_fail(r->err, TN_E_NOMEM, "no memory to render the chat template of %s", r->name);
  return NULL;
}

bool tn_j_tick(tn_jrun *r, uint64_t n)
{
  r->steps += n;
  if (r->steps <= r->limits.steps) return true;
  return tn_j_fail(r, TN_E_FULL, "rendering takes over %llu steps", (unsigned long long)r->limits.steps);
}

bool tn_j_enter(tn_jrun *r)
{
  if (++r->depth <= r->limits.depth) return true;
  return tn_j_fail(r, TN_E_FULL, "over %u values, blocks or calls inside each other", r->limits.depth);
}

void tn_j_leave(tn_jrun *r) { r->depth--; }

/* ---------------------------------------------------------------- names */

static tn_jvar *in_scope(const tn_jscope *s, tn_js name)
{
  for (tn_jvar *v = s->vars; v; v = v->next) {
    if (tn_js_eq(v->name, name)) return v;
  }
  return NULL;
}

tn_jv *tn_j_lookup(const tn_jrun *r, tn_js name)
{
  for (const tn_jscope *s = r->scope; s; s = s->parent) {
    tn_jvar *v = in_scope(s, name);
    if (v) return &v->value;
  }
  return NULL;
}

bool tn_j_set(tn_jrun *r, tn_js name, tn_jv v)
{
  tn_jvar *var = in_scope(r->scope, name);
  if (!var) {
    if (!(var = tn_j_alloc(r, 1, sizeof *var))) return false;
    var->name = name;
    var->next = r->scope->vars;
    r->scope->vars = var;
  }
  var->value = v;
  return true;
}

static bool unpack(tn_jrun *r, const tn_jnode *names, const tn_jv *v)
{
  const tn_jv *items;
  size_t n, want = 0;
  for (const tn_jnode *k = names; k; k = k->next) want++;
  if (v->kind == TN_J_UNDEF) return tn_jv_missing(r, v);
  if (!tn_jv_items(r, v, &items, &n)) return false;
  if (n != want) return tn_j_fail(r, TN_E_ARG, "%zu values for the %zu names that are assigned to", n, want);
  for (; names; names = names->next) {
    if (!tn_j_assign(r, names, items++)) return false;
  }
  return true;
}

bool tn_j_assign(tn_jrun *r, const tn_jnode *target, const tn_jv *v)
{
  if (target->kind == TN_JN_NAME) return tn_j_set(r, target->text, *v);
  if (target->kind == TN_JN_TUPLE) return unpack(r, target->a, v);
  const tn_js name = target->a->text;
  tn_jv *space = tn_j_lookup(r, name);
  if (target->kind != TN_JN_ATTR || !space || space->kind != TN_J_SPACE)
    return tn_j_fail(r, TN_E_ARG, "cannot assign attribute on non-namespace object '%.*s'", (int)name.n, name.p);
  return tn_jdict_set(r, space->dict, tn_jv_str(target->text), *v);
}

/* ---------------------------------------------------------------- blocks that write */

bool tn_j_open_scope(tn_jrun *r, tn_jscope *parent)
{
  tn_jscope *s = tn_j_alloc(r, 1, sizeof *s); /* a macro may keep it */
  if (!s) return false;
  s->parent = parent;
  r->scope = s;
  return true;
}

/* The statements in a scope of their own, inside the one at hand. */
static bool scoped(tn_jrun *r, const tn_jnode *list)
{
  tn_jscope *outer = r->scope;
  bool ok = tn_j_open_scope(r, outer) && tn_j_block(r, list);
  r->scope = outer;
  return ok;
}

/* What the statements write, as a text. */
static bool captured(tn_jrun *r, const tn_jnode *list, tn_jv *out)
{
  tn_jbuf b = {0}, *before = r->out;
  r->out = &b;
  bool ok = scoped(r, list);
  r->out = before;
  *out = tn_jv_str(tn_jbuf_str(&b));
  return ok;
}

/* A chain of filters over v; the innermost one has no operand of its own. */
static bool filtered(tn_jrun *r, const tn_jnode *filter, tn_jv *v)
{
  tn_jargs args;
  if (!filter) return true;
  if (!filtered(r, filter->a, v)) return false;
  r->line = filter->line;
  tn_jv in = *v;
  return tn_j_args(r, filter->b, &args) && tn_j_apply_filter(r, filter->text, &in, &args, v);
}

static bool set_block(tn_jrun *r, const tn_jnode *n)
{
  tn_jv v;
  return captured(r, n->c, &v) && filtered(r, n->b, &v) && tn_j_assign(r, n->a, &v);
}

static bool filter_block(tn_jrun *r, const tn_jnode *n)
{
  tn_jv v;
  return captured(r, n->b, &v) && filtered(r, n->a, &v) && tn_jv_write(r, r->out, &v);
}

/* The values of a with are those outside it. */
static bool with_block(tn_jrun *r, const tn_jnode *n)
{
  tn_jscope *outer = r->scope;
  bool ok = tn_j_open_scope(r, outer);
  tn_jscope *inner = r->scope;
  for (const tn_jnode *s = n->a; ok && s; s = s->next) {
    tn_jv v;
    r->scope = outer;
    ok = tn_j_eval(r, s->b, &v);
    r->scope = inner;
    ok = ok && tn_j_assign(r, s->a, &v);
  }
  ok = ok && tn_j_block(r, n->b);
  r->scope = outer;
  return ok;
}

/* ---------------------------------------------------------------- for */

/* The items for which the loop's condition holds. */
static bool select_items(tn_jrun *r, const tn_jnode *n, const tn_jv **items, size_t *count)
{
  tn_jv kept;
  if (!n->c) return true;
  if (!tn_jv_list(r, TN_J_LIST, &kept)) return false;
  bool ok = true;
  for (size_t i = 0; ok && i < *count; i++) {
    tn_jscope *outer = r->scope;
    tn_jv v;
    ok = tn_j_open_scope(r, outer) && tn_j_assign(r, n->a, &(*items)[i]) && tn_j_eval(r, n->c, &v);
    r->scope = outer;
    if (ok && tn_jv_true(&v)) ok = tn_jlist_add(r, kept.list, (*items)[i]);
  }
  *items = kept.list->v;
  *count = kept.list->n;
  return ok;
}

static bool turn(tn_jrun *r, const tn_jnode *n, tn_jloop *loop)
{
  tn_jscope *outer = r->scope;
  tn_jv self = {.kind = TN_J_LOOP, .loop = loop};
  bool ok = tn_j_open_scope(r, outer) && tn_j_tick(r, 1) && tn_j_set(r, TN_JS("loop"), self) &&
            tn_j_assign(r, n->a, &loop->items[loop->at]) && tn_j_block(r, n->d);
  r->scope = outer;
  return ok;
}

static bool for_block(tn_jrun *r, const tn_jnode *n)
{
  tn_jv over;
  const tn_jv *items;
  size_t count;
  if (!tn_j_eval(r, n->b, &over) || !tn_jv_items(r, &over, &items, &count) || !select_items(r, n, &items, &count))
    return false;
  if (count == 0) return scoped(r, n->e);
  tn_jloop *loop = tn_j_alloc(r, 1, sizeof *loop);
  if (!loop) return false;
  *loop = (tn_jloop){.items = items, .n = count};
  r->loops++;
  bool ok = true;
  for (; ok && loop->at < count; loop->at++) {
    ok = turn(r, n, loop);
    bool left = r->flow == TN_J_BREAK;
    r->flow = TN_J_GO;
    if (left) break;
  }
  r->loops--;
  return ok;
}

/* ---------------------------------------------------------------- statements */

static bool if_block(tn_jrun *r, const tn_jnode *n)
{
  tn_jv v;
  if (!tn_j_eval(r, n->a, &v)) return false;
  return tn_j_block(r, tn_jv_true(&v) ? n->b : n->c);
}

static bool print(tn_jrun *r, const tn_jnode *n)
{
  tn_jv v;
  return tn_j_eval(r, n->a, &v) && tn_jv_write(r, r->out, &v);
}

static bool set_value(tn_jrun *r, const tn_jnode *n)
{
  tn_jv v;
  return tn_j_eval(r, n->b, &v) && tn_j_assign(r, n->a, &v);
}

static bool define_macro(tn_jrun *r, const tn_jnode *n)
{
  tn_jv v = {.kind = TN_J_MACRO};
  v.macro = tn_j_alloc(r, 1, sizeof *v.macro);
  if (!v.macro) return false;
  *v.macro = (tn_jmacro){.name = n->text, .params = n->a, .body = n->b, .scope = r->scope};
  return tn_j_set(r, n->text, v);
}

static bool leave_loop(tn_jrun *r, const tn_jnode *n)
{
  if (r->loops == 0) return tn_j_fail(r, TN_E_ARG, "a break or continue outside of a for");
  r->flow = n->kind == TN_JN_BREAK ? TN_J_BREAK : TN_J_CONTINUE;
  return true;
}

static bool statement(tn_jrun *r, const tn_jnode *n)
{
  switch (n->kind) {
    case TN_JN_TEXT: return tn_jbuf_add(r, r->out, n->text);
    case TN_JN_PRINT: return print(r, n);
    case TN_JN_IF: return if_block(r, n);
    case TN_JN_FOR: return for_block(r, n);
    case TN_JN_SET: return set_value(r, n);
    case TN_JN_SET_BLOCK: return set_block(r, n);
    case TN_JN_MACRO: return define_macro(r, n);
    case TN_JN_CALL_BLOCK: return tn_j_call_block(r, n);
    case TN_JN_FILTER_BLOCK: return filter_block(r, n);
    case TN_JN_WITH: return with_block(r, n);
    case TN_JN_GENERATION: return scoped(r, n->a);
    default: return leave_loop(r, n);
  }
}

bool tn_j_block(tn_jrun *r, const tn_jnode *list)
{
  bool ok = tn_j_enter(r);
  for (const tn_jnode *n = list; ok && n && r->flow == TN_J_GO; n = n->next) {
    r->line = n->line;
    ok = tn_j_tick(r, 1) && statement(r, n);
    if (ok && r->out->n > r->limits.output_bytes)
      ok = tn_j_fail(r, TN_E_FULL, "the text is longer than %zu bytes", r->limits.output_bytes);
  }
  tn_j_leave(r);
  return ok;
}
