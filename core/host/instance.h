/* instance: one created plugin with the host context that its calls come back with.
 *
 * The context carries what is attributed to the instance: its log lines, its engagement counters, its allocations (a
 * plugin that leaks is named), and the services it may ask for. */
#ifndef TN_CORE_HOST_INSTANCE_H
#define TN_CORE_HOST_INSTANCE_H

#include "pool.h"
#include "wcache.h"

typedef void (*tn_log_fn)(void *ctx, int32_t level, const char *msg);
typedef uint64_t (*tn_clock_fn)(void *ctx); /* nanoseconds, never backwards */

/* What the instances of one engine (or one of its ranks) share. */
typedef struct tn_services {
  tn_pool *pool;         /* NULL: "tenon.pool/1" is not offered */
  tn_wcache *wcache;     /* NULL: "tenon.cache/1" is not offered */
  const tn_svc_ops *ops; /* NULL: not offered */
  const tn_svc_model *model;
  void *engine;  /* for ops and model: see tn_hctx_engine */
  tn_log_fn log; /* NULL: drop */
  void *log_ctx;
  tn_clock_fn clock; /* NULL: the machine's */
  void *clock_ctx;
} tn_services;

typedef struct tn_instance {
  const tn_desc *desc;
  tn_inst *inst;
  tn_hctx *ctx;
  const tn_value *values; /* borrowed */
} tn_instance;

/* Creates the plugin. services is borrowed until release. On failure *err says slot/name, phase and the plugin's text. */
tn_status tn_instance_new(const tn_desc *desc, const tn_value *values, const tn_services *services, tn_instance *out,
                          tn_err *err);

/* Destroys it. Accepts a zeroed instance. Returns the number of allocations that the plugin left behind. */
uint64_t tn_instance_release(tn_instance *i);

/* Value of counter k so far; 0 for one that the descriptor does not name. */
uint64_t tn_instance_count(const tn_instance *i, uint32_t k);

/* "tenon.pool/1" as the instance sees it, to be called with i->ctx. */
const tn_svc_pool *tn_instance_pool(const tn_instance *i);

/* The engine that services were given with. */
void *tn_hctx_engine(const tn_hctx *ctx);

#endif
