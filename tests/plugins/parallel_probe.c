/* parallel probe: both hooks of the slot; uneven cuts of heads, channels and logits, and pipeline stages.
 *
 * world    ranks
 * layers   layers of each rank, all of them where it is empty: stages
 * heads    KV heads of each rank, likewise     segments  parts of the feed-forward sum      logits  vocabulary
 * gap      1: the last rank's share is one short */
#include <string.h>

#include "probe.h"

enum { P_WORLD, P_LAYERS, P_HEADS, P_SEGMENTS, P_LOGITS, P_GAP };

struct tn_inst {
  const tn_host *host;
  uint32_t world;
  int64_t gap;
  tn_value cut[4]; /* layers, heads, segments, logits */
};

static tn_status complain(tn_err *err, const char *text)
{
  err->code = TN_E_ARG;
  strcpy(err->msg, text);
  return TN_E_ARG;
}

/* A list is empty or has a number for each rank. */
static tn_status validate(const tn_plan *plan, const tn_value *v, tn_err *err)
{
  for (int i = P_LAYERS; i <= P_LOGITS; i++)
    if (v[i].len && v[i].len != (uint32_t)v[P_WORLD].v.i) return complain(err, "a list wants as many numbers as ranks");
  if (plan->world != (uint32_t)v[P_WORLD].v.i) return complain(err, "the plan has another world");
  return TN_OK;
}

static uint32_t world(tn_inst *self) { return self->world; }

/* First and number of what a rank gets of `all`. */
static void share(const tn_inst *self, int which, uint32_t rank, int64_t all, int64_t *first, int64_t *n)
{
  const tn_value *v = &self->cut[which];
  *first = 0;
  *n = all;
  if (v->len == 0) return;
  for (uint32_t r = 0; r < rank; r++) *first += (int64_t)v->v.list[r];
  *n = (int64_t)v->v.list[rank];
  if (self->gap && rank + 1 == self->world) (*n)--;
}

static tn_status plan_rank(tn_inst *self, const tn_plan *plan, uint32_t rank, tn_par_plan *out, tn_err *err)
{
  const tn_model_shape *m = plan->model;
  int64_t layer0, n_layers, head0, n_heads, part0, n_parts, part = m->d_ff / m->n_kv_heads;
  (void)err;
  share(self, 0, rank, m->n_layers, &layer0, &n_layers);
  share(self, 1, rank, m->n_kv_heads, &head0, &n_heads);
  share(self, 2, rank, m->n_kv_heads, &part0, &n_parts);
  share(self, 3, rank, m->n_vocab, &out->vocab0, &out->n_vocab);
  out->world = self->world;
  out->rank = rank;
  out->layer0 = (uint32_t)layer0;
  out->layer1 = (uint32_t)(layer0 + n_layers);
  out->kv_head0 = (uint32_t)head0;
  out->n_kv_heads = (uint32_t)n_heads;
  out->head0 = out->kv_head0 * (m->n_heads / m->n_kv_heads);
  out->n_heads = out->n_kv_heads * (m->n_heads / m->n_kv_heads);
  out->ff0 = part0 * part;
  out->n_ff = n_parts * part;
  out->in_flight = 1;
  out->sequence = TN_SEQ_WHOLE;
  self->host->count(self->host->ctx, 0, 1);
  return TN_OK;
}

static tn_status create(const tn_host *host, const tn_value *v, tn_inst **out, tn_err *err)
{
  (void)err;
  *out = host->alloc(host->ctx, sizeof **out, 8);
  if (!*out) return TN_E_NOMEM;
  **out = (struct tn_inst){host, (uint32_t)v[P_WORLD].v.i, v[P_GAP].v.i, {v[1], v[2], v[3], v[4]}};
  return TN_OK;
}

static void destroy(tn_inst *self) { self->host->free_(self->host->ctx, self); }

#define HEAD(key_, type_, def_) .struct_size = sizeof(tn_param), .key = key_, .help = key_, .type = type_, .def = def_
#define LIST(name_, key_) static const tn_param name_ = {HEAD(key_, TN_T_F64_LIST, ""), .fmin = 0, .fmax = 1e6}
static const tn_param p_world = {HEAD("world", TN_T_I64, "2"), .imin = 1, .imax = 16};
LIST(p_layers, "layers");
LIST(p_heads, "heads");
LIST(p_segments, "segments");
LIST(p_logits, "logits");
static const tn_param p_gap = {HEAD("gap", TN_T_BOOL, "0")};
static const tn_param *const params[] = {&p_world, &p_layers, &p_heads, &p_segments, &p_logits, &p_gap, NULL};
static const tn_parallel_v1 vtable = {.struct_size = sizeof vtable, .world = world, .plan = plan_rank};

static const char *const needs[] = {"collective/1", NULL};
static const char *const counters[] = {"ranks_planned", NULL};

static const tn_desc desc = {.struct_size = sizeof desc,
                             .slot = TN_SLOT_PARALLEL,
                             .slot_version = TN_SLOT_VERSION,
                             .flags = TN_F_DETERMINISTIC | TN_F_EXACT,
                             .id = "org.tenon.test.parallel",
                             .name = "probe",
                             .version = "1.0.0",
                             .summary = "every hook of the slot parallel",
                             .needs = needs,
                             .params = params,
                             .counters = counters,
                             .validate = validate,
                             .create = create,
                             .destroy = destroy,
                             .vtable = &vtable};

TN_PLUGIN(parallel_probe, "org.tenon.test.parallel", TN_SLOT_PARALLEL, "1.0.0", "Tenon", "Apache-2.0", desc);
