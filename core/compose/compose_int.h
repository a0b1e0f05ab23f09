/* compose_int: what the files of compose/ share. */
#ifndef TN_CORE_COMPOSE_COMPOSE_INT_H
#define TN_CORE_COMPOSE_COMPOSE_INT_H

#include <stdio.h>

#include "compose/compose.h"
#include "config/section.h"

/* What is being resolved: parts and settings without owners, so that a change can be tried on a copy. */
typedef struct tn_stack {
  const tn_config *config;
  const tn_catalog *catalog;
  const tn_compose_model *model; /* or NULL */
  const tn_options *engine;      /* for origins and texts; values are overridden by `set` */
  int64_t set[TN_ENGINE_N];      /* ENUM and BOOL options as they are (or are tried) */
  uint32_t n;
  tn_choice part[TN_MAX_PARTS];
} tn_stack;

/* One end of a refusal. */
enum { TN_SIDE_NONE = 0, TN_SIDE_PART = 1, TN_SIDE_ENGINE = 2, TN_SIDE_SLOT = 3 };
typedef struct tn_side {
  uint32_t kind;
  uint32_t index; /* PART: in stack.part; ENGINE: the option; SLOT: a slot that no part fills */
} tn_side;

enum { TN_CLASH_NEED = 1, TN_CLASH_CONFLICT = 2, TN_CLASH_USE = 3, TN_CLASH_VALIDATE = 4 };
typedef struct tn_clash { /* why a stack cannot work */
  uint32_t kind;
  tn_side a; /* NEED, CONFLICT: states the token; USE, VALIDATE: the part concerned */
  tn_side b; /* NEED: should bring it; CONFLICT: brings or needs it */
  const char *token;
  bool b_needs; /* CONFLICT: b needs the token; false: provides it */
  tn_err text;  /* VALIDATE: the plugin's own words */
} tn_clash;

/* resolve.c: true when the stack works; else *clash is its first fault. Pure but for the plugins' validate(). */
bool tn_resolve(const tn_stack *s, tn_clash *clash);

/* The part that provides a token; SIDE_NONE when it is the host. found false: nothing does. */
tn_side tn_resolve_giver(const tn_stack *s, const char *token, bool *found);

/* The k-th token that part p needs by its descriptor, its key or what it provides; NULL past the end. */
const char *tn_choice_need(const tn_choice *p, size_t k);

/* Does a token of the part's descriptor count under its key? */
bool tn_token_counts(const tn_choice *p, const char *token);

/* plan.c: tn_plan over a stack's parts, in caller's storage. */
typedef struct tn_plan_store {
  tn_plan plan;
  tn_plan_part part[TN_MAX_PARTS];
  const tn_plan_part *list[TN_MAX_PARTS];
} tn_plan_store;
void tn_plan_fill(const tn_stack *s, tn_plan_store *out);

/* suggest.c: up to two nearest changes that make the stack work, as words; "" when none was found. */
void tn_suggest(const tn_stack *s, const tn_clash *clash, char *buf, size_t n);

/* refuse.c: the sentence of a clash with its suggestions, as TN_E_UNSUPPORTED. */
tn_status tn_refuse(const tn_stack *s, const tn_clash *clash, tn_err *err);

/* "engine.verify = greedy". */
void tn_option_words(const tn_stack *s, uint32_t option, int64_t value, char *buf, size_t n);

/* "eviction.h2o.", and for the slot whose plugins fill several keys "quantizer.int8@kv.": what goes before an option. */
void tn_option_prefix(const tn_choice *p, char *buf, size_t n);

/* Is the part one of several attention parts? "0-3", "4-". */
bool tn_is_range(const tn_choice *p);
void tn_range_words(const tn_choice *p, char out[32]);

/* parts.c: the plugin called name and its options, for one key. where is borrowed, "" when nothing names it. On success
 * *out is the caller's (tn_choice_close). */
tn_status tn_choice_open(const tn_stack *s, const tn_compose_key *key, tn_str name, const char *where, tn_choice *out,
                         tn_err *err);
void tn_choice_close(tn_choice *p);
/* Are keys and values right in a section that no part of the composition reads? TN_OK, too, for a plugin that cannot be
 * opened. section: as in the configuration, with its @key. */
tn_status tn_section_check(const tn_stack *s, const tn_config_entry *e, tn_str name, tn_err *err);
/* All parts that the config names, into c->stack. On failure those made so far are there. */
tn_status tn_parts_read(tn_composition *c, tn_err *err);

/* layers.c: the ranges of attention.layers. */
typedef struct tn_layer_range {
  uint32_t layer0, layer1;
  tn_str name;
} tn_layer_range;
/* Errors: TN_E_ARG without file and line. n_layers 0: not known. */
tn_status tn_layers_parse(const char *text, uint32_t n_layers, tn_layer_range *out, uint32_t *n, tn_err *err);

/* position.c: the plugin that models.ini names for a rope scaling word. *name and *where are the caller's. */
tn_status tn_position_of(const tn_config *c, const char *scaling, char **name, char **where, tn_err *err);

/* warnings.c */
typedef struct tn_warnings {
  char **at; /* [n] */
  size_t n;
} tn_warnings;
tn_status tn_warnings_find(const tn_composition *c, tn_warnings *out, tn_err *err);
/* Takes over text; NULL: no memory. */
tn_status tn_warnings_add(tn_warnings *w, char *text, tn_err *err);

/* context.c: warns of a context that is longer than the model was trained for, where nothing in the composition makes up
 * for it, and names a change that does. */
tn_status tn_context_check(const tn_composition *c, tn_warnings *out, tn_err *err);

struct tn_composition {
  tn_host_options host;
  tn_stack stack;
  tn_plan_store plan;
  tn_warnings warnings;
  char *position_name, *position_where, *position_why; /* of a mapped position, or NULL */
  tn_compose_model model;                              /* stack.model points here, or is NULL */
  uint8_t fingerprint[32];
};

/* facts.c: a composition as a flat list, the source of fingerprint, diff, explain and json. */
#define TN_FACT_HOST UINT32_MAX
typedef struct tn_fact {
  char *name;            /* "kv", "quantizer.int8@kv.group", "engine.threads"; owned */
  char *value;           /* owned */
  const char *where;     /* NULL: a default */
  uint32_t part;         /* index of the part, or TN_FACT_HOST */
  const tn_param *param; /* of an option */
  bool is_part;          /* the part itself; else an option */
  bool output;           /* can change tokens */
} tn_fact;
typedef struct tn_facts {
  tn_fact *at;
  size_t n;
} tn_facts;
tn_status tn_facts_of(const tn_composition *c, tn_facts *out);
void tn_facts_free(tn_facts *f);

/* explain.c: closes a stream of open_memstream. Its text, or NULL when anything failed. */
char *tn_text_finish(FILE *f, char **text);

tn_status tn_fingerprint(const tn_composition *c, uint8_t out[32], tn_err *err);

#endif
