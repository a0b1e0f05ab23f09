/* jinja: what the files of the interpreter share: memory, values, nodes, and the state of one rendering.
 *
 * All memory is an arena's, taken as a rendering goes and given back at its end, so nothing here is freed one by one and
 * no failure leaks. A function that can fail returns false after it has filled the run's error. */
#ifndef TN_CORE_CHAT_JINJA_H
#define TN_CORE_CHAT_JINJA_H

#include <string.h>

#include "chat/template.h"

/* ---------------------------------------------------------------- memory (arena.c) */

typedef struct tn_arena_block tn_arena_block;
typedef struct tn_arena {
  tn_arena_block *blocks;
  size_t used, limit; /* bytes; what is over limit is refused */
} tn_arena;

/* Zeroed memory, or NULL: none, or the limit is reached. */
void *tn_arena_alloc(tn_arena *a, size_t bytes);
void tn_arena_free(tn_arena *a);

/* ---------------------------------------------------------------- text (text.c) */

/* A run of UTF-8 with its origin: m[i] is 1 where byte i comes from the conversation; m NULL: all of it is the
 * template's. */
typedef struct tn_js {
  const char *p;
  const uint8_t *m;
  size_t n;
} tn_js;

#define TN_JS(literal) ((tn_js){literal, NULL, sizeof(literal) - 1})

typedef struct tn_jbuf { /* text that grows */
  char *p;
  uint8_t *m; /* NULL: nothing of the conversation yet */
  size_t n, cap;
} tn_jbuf;

/* ---------------------------------------------------------------- values (value.c) */

typedef enum tn_jkind {
  TN_J_ABSENT, /* an argument that was not given */
  TN_J_UNDEF,  /* text: what is undefined; owner: of which kind it would be an attribute or element */
  TN_J_NONE,
  TN_J_BOOL,
  TN_J_INT,
  TN_J_FLOAT,
  TN_J_STR,
  TN_J_LIST,
  TN_J_TUPLE,
  TN_J_GEN, /* what a lazy filter gives: it can be gone through once */
  TN_J_DICT,
  TN_J_SPACE, /* namespace() */
  TN_J_LOOP,
  TN_J_MACRO,
  TN_J_FUNC,  /* a global function */
  TN_J_METHOD /* a method with the value it is of */
} tn_jkind;

typedef struct tn_jlist tn_jlist;
typedef struct tn_jdict tn_jdict;
typedef struct tn_jloop tn_jloop;
typedef struct tn_jmacro tn_jmacro;
typedef struct tn_jbuiltin tn_jbuiltin;
typedef struct tn_jbound tn_jbound;

typedef struct tn_jv {
  uint8_t kind;  /* tn_jkind */
  uint8_t owner; /* UNDEF: tn_jkind, ABSENT for a variable */
  bool element;  /* UNDEF: an element, not an attribute */
  bool safe;     /* STR: went through the filter safe */
  union {
    bool b;
    int64_t i;
    double f;
    tn_js s; /* STR, UNDEF */
    tn_jlist *list;
    tn_jdict *dict; /* DICT, SPACE */
    tn_jloop *loop;
    tn_jmacro *macro;
    const tn_jbuiltin *func;
    tn_jbound *bound;
  };
} tn_jv;

struct tn_jlist {
  tn_jv *v; /* [n] of cap */
  size_t n, cap;
};

typedef struct tn_jpair {
  tn_jv key, value;
} tn_jpair;

struct tn_jdict { /* in order of insertion */
  tn_jpair *v;    /* [n] of cap */
  size_t n, cap;
};

struct tn_jloop {
  const tn_jv *items; /* [n] */
  size_t n, at;
  bool changed_once; /* loop.changed() was called before, with last */
  tn_jv last;
};

struct tn_jbound {
  tn_jv self;
  const tn_jbuiltin *method;
};

/* ---------------------------------------------------------------- nodes (parse.c, parse_expr.c) */

typedef enum tn_jnode_kind {
  /* expressions */
  TN_JN_CONST, /* value */
  TN_JN_NAME,  /* text */
  TN_JN_LIST,  /* a: first element */
  TN_JN_TUPLE,
  TN_JN_DICT,    /* a: first pair */
  TN_JN_PAIR,    /* a: key, b: value */
  TN_JN_NEG,     /* a */
  TN_JN_POS,     /* a */
  TN_JN_NOT,     /* a */
  TN_JN_AND,     /* a, b */
  TN_JN_OR,      /* a, b */
  TN_JN_BINARY,  /* op, a, b */
  TN_JN_CONCAT,  /* a: first part */
  TN_JN_COMPARE, /* a, b: first operand, each with its op */
  TN_JN_OPERAND, /* op, a */
  TN_JN_COND,    /* a if b else c (c NULL: undefined) */
  TN_JN_ATTR,    /* a.text */
  TN_JN_ITEM,    /* a[b] */
  TN_JN_SLICE,   /* a : b : c, any NULL */
  TN_JN_CALL,    /* a(b: first argument) */
  TN_JN_FILTER,  /* a | text(b), a NULL in a filter block */
  TN_JN_TEST,    /* a is text(b) */
  TN_JN_KWARG,   /* text = a */
  TN_JN_STAR,    /* *a */
  TN_JN_STAR2,   /* **a */
  /* statements */
  TN_JN_TEXT,         /* text */
  TN_JN_PRINT,        /* a */
  TN_JN_IF,           /* if a: b else: c */
  TN_JN_FOR,          /* for a in b if c: d else: e */
  TN_JN_SET,          /* a = b */
  TN_JN_SET_BLOCK,    /* a, filters b or NULL, body c */
  TN_JN_MACRO,        /* text, parameters a (NAME with default a), body b */
  TN_JN_CALL_BLOCK,   /* call (a: parameters) b: body c */
  TN_JN_FILTER_BLOCK, /* filters a, body b */
  TN_JN_WITH,         /* a: first SET, body b */
  TN_JN_GENERATION,   /* body a */
  TN_JN_BREAK,
  TN_JN_CONTINUE
} tn_jnode_kind;

typedef enum tn_jop {
  TN_JO_NONE,
  TN_JO_ADD,
  TN_JO_SUB,
  TN_JO_MUL,
  TN_JO_DIV,
  TN_JO_FLOORDIV,
  TN_JO_MOD,
  TN_JO_POW,
  TN_JO_EQ,
  TN_JO_NE,
  TN_JO_LT,
  TN_JO_LE,
  TN_JO_GT,
  TN_JO_GE,
  TN_JO_IN,
  TN_JO_NOT_IN
} tn_jop;

typedef struct tn_jnode tn_jnode;
struct tn_jnode {
  uint8_t kind, op; /* tn_jnode_kind, tn_jop */
  uint32_t line;
  tn_js text;
  tn_jv value;
  tn_jnode *a, *b, *c, *d, *e;
  tn_jnode *next; /* sibling */
};

/* The statements of source[0, n) into *out, NULL when there are none. name: of the template. */
tn_status tn_j_parse(tn_arena *a, const char *source, size_t n, const char *name, tn_jnode **out, tn_err *err);

/* ---------------------------------------------------------------- one rendering */

typedef struct tn_jvar {
  tn_js name;
  tn_jv value;
  struct tn_jvar *next;
} tn_jvar;

typedef struct tn_jscope {
  tn_jvar *vars;
  struct tn_jscope *parent;
} tn_jscope;

struct tn_jmacro {
  tn_js name;
  const tn_jnode *params; /* NAME nodes, a: default or NULL */
  const tn_jnode *body;
  tn_jscope *scope; /* where it was defined */
  tn_jv caller;     /* ABSENT: none is open */
};

typedef struct tn_jrun {
  tn_arena arena;
  const char *name; /* of the template */
  tn_err *err;
  tn_status status; /* of the failure */
  tn_chat_limits limits;
  uint64_t steps;
  uint32_t depth, loops; /* nesting now; of loops */
  uint32_t line;         /* of what runs now */
  tn_jscope *scope;
  tn_jbuf *out;
  enum { TN_J_GO, TN_J_BREAK, TN_J_CONTINUE } flow;
  const struct tm *now;
  const uint8_t *ones; /* [n_ones] marks of a text that is all from the conversation */
  size_t n_ones;
} tn_jrun;

/* Fills the error with template, line and text; always false. */
bool tn_j_fail(tn_jrun *r, tn_status code, const char *fmt, ...) TN_PRINTF(3, 4);
/* Counts work; false when the limit is reached. */
bool tn_j_tick(tn_jrun *r, uint64_t n);
bool tn_j_enter(tn_jrun *r); /* one deeper; tn_j_leave after it also when it failed */
void tn_j_leave(tn_jrun *r);
void *tn_j_alloc(tn_jrun *r, size_t n, size_t size); /* NULL: failed */

/* ---- text.c */
bool tn_jbuf_add(tn_jrun *r, tn_jbuf *b, tn_js s);
bool tn_jbuf_char(tn_jrun *r, tn_jbuf *b, char c, bool marked);
static inline tn_js tn_jbuf_str(const tn_jbuf *b) { return (tn_js){b->p ? b->p : "", b->m, b->n}; }
static inline tn_js tn_js_cut(tn_js s, size_t from, size_t to)
{
  return (tn_js){s.p + from, s.m ? s.m + from : NULL, to - from};
}
static inline bool tn_js_eq(tn_js a, tn_js b) { return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0); }
static inline bool tn_js_is(tn_js a, const char *b) { return a.n == strlen(b) && memcmp(a.p, b, a.n) == 0; }
int tn_js_cmp(tn_js a, tn_js b);
#define TN_JS_NONE SIZE_MAX
size_t tn_js_find(tn_js s, tn_js part, size_t from); /* TN_JS_NONE */
size_t tn_js_rfind(tn_js s, tn_js part);
size_t tn_js_chars(tn_js s);                                         /* code points */
size_t tn_js_offset(tn_js s, size_t chars);                          /* byte where code point chars begins, at most n */
size_t tn_js_space_at(tn_js s, size_t i);                            /* bytes of the white space at i, 0: none there */
tn_js tn_js_strip(tn_js s, const tn_js *set, bool left, bool right); /* set NULL: white space */
bool tn_js_replace(tn_jrun *r, tn_js s, tn_js from, tn_js to, int64_t count, tn_js *out);
enum { TN_JCASE_UPPER, TN_JCASE_LOWER, TN_JCASE_CAPITAL, TN_JCASE_TITLE };
bool tn_js_case(tn_jrun *r, tn_js s, int how, tn_js *out);
typedef enum { TN_JC_UPPER, TN_JC_LOWER, TN_JC_ALPHA, TN_JC_DIGIT, TN_JC_ALNUM, TN_JC_SPACE } tn_jclass;
bool tn_js_class(tn_jrun *r, tn_js s, tn_jclass c, bool *out); /* as str.isupper() and its like */

/* ---- value.c */
static inline tn_jv tn_jv_none(void) { return (tn_jv){.kind = TN_J_NONE}; }
static inline tn_jv tn_jv_bool(bool b) { return (tn_jv){.kind = TN_J_BOOL, .b = b}; }
static inline tn_jv tn_jv_int(int64_t i) { return (tn_jv){.kind = TN_J_INT, .i = i}; }
static inline tn_jv tn_jv_float(double f) { return (tn_jv){.kind = TN_J_FLOAT, .f = f}; }
static inline tn_jv tn_jv_str(tn_js s) { return (tn_jv){.kind = TN_J_STR, .s = s}; }
static inline tn_jv tn_jv_undef(tn_js name) { return (tn_jv){.kind = TN_J_UNDEF, .s = name}; }
bool tn_jv_list(tn_jrun *r, tn_jkind kind, tn_jv *out); /* an empty one */
bool tn_jv_dict(tn_jrun *r, tn_jkind kind, tn_jv *out);
bool tn_jlist_add(tn_jrun *r, tn_jlist *l, tn_jv v);
tn_jv *tn_jdict_find(const tn_jdict *d, tn_js key);       /* a text key */
tn_jv *tn_jdict_get(const tn_jdict *d, const tn_jv *key); /* any key */
bool tn_jdict_set(tn_jrun *r, tn_jdict *d, tn_jv key, tn_jv value);
const char *tn_jv_type(const tn_jv *v); /* as Python names it: "str" */
bool tn_jv_true(const tn_jv *v);
bool tn_jv_eq(tn_jrun *r, const tn_jv *a, const tn_jv *b, bool *out);
bool tn_jv_cmp(tn_jrun *r, const tn_jv *a, const tn_jv *b, const char *op, int *out); /* error: no order */
bool tn_jv_number(const tn_jv *v, double *f);                                         /* int, bool or float */
bool tn_jv_integer(const tn_jv *v, int64_t *i);                                       /* int or bool */
bool tn_jv_len(tn_jrun *r, const tn_jv *v, int64_t *out);
/* What a for loop goes through: *items is borrowed from the arena. An undefined value has none. */
bool tn_jv_items(tn_jrun *r, const tn_jv *v, const tn_jv **items, size_t *n);
/* The error of using a value that is undefined; always false. */
bool tn_jv_missing(tn_jrun *r, const tn_jv *v);

/* ---- value_text.c */
bool tn_jv_text(tn_jrun *r, const tn_jv *v, tn_js *out);  /* str(v) */
bool tn_jv_write(tn_jrun *r, tn_jbuf *b, const tn_jv *v); /* str(v) at the end of b */
bool tn_jv_repr(tn_jrun *r, tn_jbuf *b, const tn_jv *v);
bool tn_jbuf_double(tn_jrun *r, tn_jbuf *b, double f);

/* ---- value_json.c */
bool tn_jv_from_json(tn_jrun *r, const json_t *j, tn_jv *out); /* texts are marked as the conversation's */
typedef struct tn_jstyle {                                     /* of json.dumps */
  tn_js indent;                                                /* of one level */
  bool pretty, sort, ascii;
  tn_js item, key; /* separators */
} tn_jstyle;
bool tn_jv_to_json(tn_jrun *r, tn_jbuf *b, const tn_jv *v, const tn_jstyle *style);

/* ---- run*.c, ops.c, attr.c */
bool tn_j_block(tn_jrun *r, const tn_jnode *list); /* statements to r->out */
bool tn_j_eval(tn_jrun *r, const tn_jnode *n, tn_jv *out);
bool tn_j_assign(tn_jrun *r, const tn_jnode *target, const tn_jv *v);
bool tn_j_open_scope(tn_jrun *r, tn_jscope *parent); /* r->scope becomes a fresh one */
bool tn_j_set(tn_jrun *r, tn_js name, tn_jv v);      /* in the innermost scope */
tn_jv *tn_j_lookup(const tn_jrun *r, tn_js name);    /* NULL: not set */
bool tn_j_binary(tn_jrun *r, tn_jop op, const tn_jv *a, const tn_jv *b, tn_jv *out);
bool tn_j_compare(tn_jrun *r, tn_jop op, const tn_jv *a, const tn_jv *b, bool *out);
bool tn_j_attr(tn_jrun *r, const tn_jv *v, tn_js name, tn_jv *out);
bool tn_j_item(tn_jrun *r, const tn_jv *v, const tn_jv *key, tn_jv *out);
bool tn_j_slice(tn_jrun *r, const tn_jv *v, const tn_jv bounds[3], tn_jv *out);

/* ---------------------------------------------------------------- functions, filters, tests, methods */

typedef struct tn_jkw {
  tn_js name;
  tn_jv value;
} tn_jkw;

typedef struct tn_jargs {
  const tn_jv *v; /* [n] */
  size_t n;
  const tn_jkw *kw; /* [n_kw] */
  size_t n_kw;
} tn_jargs;

#define TN_J_MAX_PARAMS 5u

/* self: what stands before | or is or the dot, NULL for a global function; all: as given; a: bound to params, ABSENT
 * where not given. */
typedef bool (*tn_jfn)(tn_jrun *r, const tn_jv *self, const tn_jargs *all, const tn_jv *a, tn_jv *out);

struct tn_jbuiltin {
  const char *name;
  const char *params; /* names with a space between; NULL: takes them as given */
  tn_jfn fn;
  uint8_t n_required;
};

/* Binds the arguments and calls. what: "filter", "test", "method" or "function", for messages. */
bool tn_j_invoke(tn_jrun *r, const char *what, const tn_jbuiltin *f, const tn_jv *self, const tn_jargs *args,
                 tn_jv *out);
/* Calls a macro, function or method. */
bool tn_j_call(tn_jrun *r, const tn_jv *callee, const tn_jargs *args, tn_jv *out);
bool tn_j_call_block(tn_jrun *r, const tn_jnode *n);
bool tn_j_args(tn_jrun *r, const tn_jnode *list, tn_jargs *out); /* evaluates them */

/* The entry of that name, NULL when there is none. */
const tn_jbuiltin *tn_j_filter(tn_js name);
const tn_jbuiltin *tn_j_test(tn_js name);
const tn_jbuiltin *tn_j_method(const tn_jv *self, tn_js name);
const tn_jbuiltin *tn_j_global(tn_js name);
const tn_jbuiltin *tn_j_find(const tn_jbuiltin *table, size_t n, tn_js name);
bool tn_j_apply_filter(tn_jrun *r, tn_js name, const tn_jv *self, const tn_jargs *args, tn_jv *out);
/* The argument attribute= of filters, "a.b" or an index, of v; ABSENT: v itself. fill: what stands for a part
 * that is undefined, or NULL. */
bool tn_j_by_attribute(tn_jrun *r, const tn_jv *v, const tn_jv *attribute, const tn_jv *fill, tn_jv *out);
bool tn_j_apply_test(tn_jrun *r, tn_js name, const tn_jv *self, const tn_jargs *args, bool *out);

/* The filters by file: text, numbers and conversions; sequences; those that take another filter or test by name. */
extern const tn_jbuiltin tn_j_filters_text[], tn_j_filters_list[], tn_j_filters_select[];
extern const size_t tn_j_n_filters_text, tn_j_n_filters_list, tn_j_n_filters_select;
/* The methods of text. */
extern const tn_jbuiltin tn_j_text_methods[];
extern const size_t tn_j_n_text_methods;

#endif
