/* setup: from a command line's choices to an engine that runs. Configuration, model, tokenizer, composition, engine, in
 * that order, each with a clear error; and everything taken down again in reverse.
 *
 * Thread rule: one thread opens and closes; the engine inside has its own rule. */
#ifndef TN_CORE_SETUP_SETUP_H
#define TN_CORE_SETUP_SETUP_H

#include "compose/compose.h"
#include "engine/engine.h"
#include "loader/loader.h"
#include "tokenizer/tokenizer.h"

typedef struct tn_setup_args {  /* borrowed until tn_setup_open returns, events and callbacks until close */
  const char *const *conf;      /* [n_conf] INI files; none: default.ini of conf_dir */
  const char *const *sets;      /* [n_sets] "section.key=value" */
  const char *const *sets_from; /* [n_sets] what the user wrote for each; NULL, or NULL in it: --set and the text */
  size_t n_conf, n_sets;
  const char *model;     /* file; NULL: [model] path */
  const char *conf_dir;  /* folder of the installation's configurations, or NULL */
  const char *cache_dir; /* folder where packed weights are kept ([engine] weights_cache); NULL: none are */
  tn_loader *loader;     /* NULL: a loader of its own */
  tn_events events;
  uint32_t build_flags; /* TN_BUILD_* */
  bool no_engine;       /* stop after the composition */
  tn_observe_fn observe;
  void *observe_ctx;
  tn_trace_fn trace; /* see tn_engine_cfg */
  void *trace_ctx;
  tn_log_fn log;
  void *log_ctx;
  tn_progress_fn progress; /* 0 .. 1 over reading and loading */
  void *progress_ctx;
  tn_clock_fn clock; /* see tn_engine_cfg */
  void *clock_ctx;
  bool null_forward;
} tn_setup_args;

typedef struct tn_setup {
  tn_config *config;
  tn_host_options host;
  tn_loader *loader;
  bool own_loader;
  tn_model *model;
  tn_tokenizer *tokenizer;
  tn_composition *composition;
  tn_layer_part *attention;
  int32_t *eog;
  char *cache_dir;
  tn_engine *engine;
  tn_engine_opts opts;
} tn_setup;

/* On failure *out is closed and *err is one sentence. */
tn_status tn_setup_open(const tn_setup_args *args, tn_setup *out, tn_err *err);
void tn_setup_close(tn_setup *s);

#endif
