/* compose: from a configuration to a checked composition of plugins.
 *
 * Every key of [compose] becomes a part: a plugin with its option values. Tokens, versions, required keys and the
 * plugins' own validate() are resolved over all parts before any instance exists. A combination that cannot work is
 * refused with one sentence: both keys with their values and where they were set, the reason, and the nearest changes
 * that do work (each of them resolved again before it is named). Nothing is ever switched off or replaced silently.
 *
 *   tn_config -> tn_compose_host -> (the caller opens the model) -> tn_compose -> tn_composition
 *
 * Conventions: a memory plugin's option `page_tokens` and a parallel plugin's option `world` are read by the host into
 * tn_plan, and an option `factor` of a position plugin that provides rope.stretch/1 as the stretch of the trained context
 * (0: the model file's). With no `position` key, models.ini in the folder of configurations maps the model's rope scaling to a plugin.
 *
 * Thread rule: one thread composes (the loader's rule); then any thread may read. */
#ifndef TN_CORE_COMPOSE_COMPOSE_H
#define TN_CORE_COMPOSE_COMPOSE_H

#include <jansson.h>

#include "compose/catalog.h"
#include "config/config.h"
#include "config/host_params.h"
#include "config/options.h"
#include "model/model.h"

enum {
  TN_MAX_PARTS = 96,
  TN_MAX_LAYER_PARTS = 64,  /* ranges of attention.layers */
  TN_PLAN_PAGE_TOKENS = 16, /* where the memory plugin has no option page_tokens */
  TN_PLAN_CTX_MAX = 8192,   /* [engine] ctx = 0: the model's context, at most this */
  TN_FINGERPRINT_HEX = 16   /* digits shown */
};
#define TN_LAYER_END UINT32_MAX /* layer1 of a range that goes on to the last layer */

typedef struct tn_choice {
  const char *key; /* of [compose]: "draft"; "attention" also for attention.layers */
  uint32_t slot;
  uint32_t layer0, layer1; /* attention: layers [layer0, layer1), else 0 and TN_LAYER_END */
  const tn_plugin *plugin; /* the catalogue's */
  const tn_desc *desc;
  tn_options options; /* options.values goes to create() */
  const char *where;  /* "conf/a.ini:12" */
  const char *why;    /* NULL: the INI names it; else the reason, for --explain */
} tn_choice;

typedef struct tn_host_options { /* [engine] and [model] */
  tn_options engine, model;
  tn_engine_opts opts;
  const char *model_path; /* "" when there is none; borrowed from model */
} tn_host_options;

typedef struct tn_compose_model { /* what composing takes from a model file */
  const tn_model_shape *shape;
  const char *rope_scaling; /* the file's word, "" for none */
  int64_t n_ctx_orig;       /* context before that scaling; 0: as shape->n_ctx_train */
  uint8_t identity[32];     /* tn_gguf_identity */
} tn_compose_model;

typedef struct tn_composition tn_composition;

/* Parses and checks [engine] and [model]. Borrows the config until free. Errors: TN_E_ARG, TN_E_NOMEM. */
tn_status tn_compose_host(const tn_config *c, tn_host_options *out, tn_err *err);
void tn_compose_host_free(tn_host_options *h);

/* The facts of an open model, borrowed from it. */
tn_compose_model tn_compose_model_of(const tn_model *m);

/* model NULL: without a model (its shape is not checked against, positions are plain). The config, the catalogue's
 * plugins and the model outlive the composition. On failure *out is NULL and *err is one sentence: TN_E_ARG for what the
 * configuration says, TN_E_UNSUPPORTED for a combination that is refused, what the catalogue returns, TN_E_NOMEM. */
tn_status tn_compose(const tn_config *c, const tn_catalog *catalog, const tn_compose_model *model, tn_composition **out,
                     tn_err *err);
void tn_composition_free(tn_composition *c);

/* Parts in the order of tn_compose_key_at, attention by layers. */
size_t tn_composition_n(const tn_composition *c);
const tn_choice *tn_composition_at(const tn_composition *c, size_t i);

/* The first part under a key, or NULL when the key is not set. */
const tn_choice *tn_composition_part(const tn_composition *c, const char *key);

/* The i-th part that the model would have to be trained for (there are some only with [engine] allow_untrained): what is
 * measured then is another model's. NULL past the end. */
const tn_choice *tn_composition_untrained(const tn_composition *c, size_t i);

const tn_host_options *tn_composition_host(const tn_composition *c);

/* What validate() and describe() are given. */
const tn_plan *tn_composition_plan(const tn_composition *c);

/* SHA-256 over plugin ids and versions by key and layers, options that can change tokens (the host's too) and the model's
 * identity. It does not depend on the order of keys, the layout of files, or where plugins lie. */
const uint8_t *tn_composition_fingerprint(const tn_composition *c);

/* Its first TN_FINGERPRINT_HEX digits and a NUL. */
void tn_composition_short(const tn_composition *c, char out[TN_FINGERPRINT_HEX + 1]);

/* Things a user should know that are no error: an option that is deprecated, a section that nothing reads. NULL past the
 * end. */
const char *tn_composition_warning(const tn_composition *c, size_t i);

/* ---------------------------------------------------------------- reports; each NULL when there is no memory */

/* One line a part, and the fingerprint. Free with free(). */
char *tn_composition_summary(const tn_composition *c);

/* What each key got and why, every option with its value and origin, tokens and who meets them. Free with free(). */
char *tn_composition_explain(const tn_composition *c);

/* What differs between two compositions, one line a difference; "" when nothing does. Free with free(). */
char *tn_composition_diff(const tn_composition *a, const tn_composition *b);

/* The same facts for programs. A new reference. */
json_t *tn_composition_json(const tn_composition *c);
json_t *tn_composition_diff_json(const tn_composition *a, const tn_composition *b);

#endif
