/* transport: see transport.h. */
#include "transport.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct tn_transport {
  uint32_t world, max_rows;
  int64_t max_cols;
  float **stage;     /* [world][max_rows * max_cols] */
  float **work;      /* [world][max_rows * max_cols] what a rank assembles */
  int64_t *cols;     /* [world] columns in each stage */
  atomic_uint *full; /* [world] point-to-point: 1 while the stage holds a message not yet taken */
  atomic_uint arrived, phase;
  atomic_bool aborted;
};

tn_status tn_transport_new(uint32_t world, uint32_t max_rows, int64_t max_cols, tn_transport **out, tn_err *err)
{
  *out = NULL;
  tn_transport *t = tn_zalloc(1, sizeof *t);
  if (!t) return tn_fail(err, TN_E_NOMEM, "no memory for the exchange between %u ranks", world);
  t->world = world;
  t->max_rows = max_rows;
  t->max_cols = max_cols;
  t->stage = tn_zalloc(world, sizeof *t->stage);
  t->work = tn_zalloc(world, sizeof *t->work);
  t->cols = tn_zalloc(world, sizeof *t->cols);
  t->full = tn_zalloc(world, sizeof *t->full);
  bool ok = t->stage && t->work && t->cols && t->full;
  for (uint32_t r = 0; ok && r < world; r++) {
    t->stage[r] = tn_zalloc((size_t)max_rows * (size_t)max_cols, sizeof(float));
    t->work[r] = tn_zalloc((size_t)max_rows * (size_t)max_cols, sizeof(float));
    ok = t->stage[r] && t->work[r];
  }
  if (!ok) {
    tn_transport_free(t);
    return tn_fail(err, TN_E_NOMEM, "no memory for the exchange between %u ranks", world);
  }
  *out = t;
  return TN_OK;
}

void tn_transport_free(tn_transport *t)
{
  if (!t) return;
  for (uint32_t r = 0; r < t->world; r++) {
    if (t->stage) free(t->stage[r]);
    if (t->work) free(t->work[r]);
  }
  free(t->stage);
  free(t->work);
  free(t->cols);
  free(t->full);
  free(t);
}

void tn_transport_reset(tn_transport *t)
{
  atomic_store(&t->aborted, false);
  atomic_store(&t->arrived, 0);
  for (uint32_t r = 0; r < t->world; r++) atomic_store(&t->full[r], 0);
}

void tn_transport_abort(tn_transport *t) { atomic_store(&t->aborted, true); }

/* Spins until *word is no longer `while_is`; false after an abort. */
static bool await(const tn_transport *t, const atomic_uint *word, unsigned while_is)
{
  for (unsigned spins = 0; atomic_load_explicit(word, memory_order_acquire) == while_is; spins++) {
    if (atomic_load_explicit(&t->aborted, memory_order_relaxed)) return false;
    if (spins > 200) sched_yield();
  }
  return true;
}

static bool barrier(tn_transport *t)
{
  unsigned phase = atomic_load(&t->phase);
  if (atomic_fetch_add(&t->arrived, 1) + 1 == t->world) {
    atomic_store(&t->arrived, 0);
    atomic_store(&t->phase, phase + 1);
    return !atomic_load(&t->aborted);
  }
  return await(t, &t->phase, phase);
}

static tn_status fetch(const tn_rank *r, const tn_tensor *x, uint32_t n_rows, float *dst)
{
  tn_status st = r->b->download(r->backend.inst, x->buf, x->offset, dst, (uint64_t)n_rows * (uint64_t)x->ne[0] * 4);
  return st == TN_OK ? r->b->sync(r->backend.inst) : st;
}

static tn_status store(const tn_rank *r, const tn_tensor *x, uint32_t n_rows, const float *src)
{
  tn_status st = r->b->upload(r->backend.inst, x->buf, x->offset, src, (uint64_t)n_rows * (uint64_t)x->ne[0] * 4);
  return st == TN_OK ? r->b->sync(r->backend.inst) : st;
}

/* Columns of all ranks side by side, in rank order. */
static tn_status gather(const tn_transport *t, uint32_t n_rows, int64_t want, float *dst)
{
  int64_t total = 0;
  for (uint32_t r = 0; r < t->world; r++) total += t->cols[r];
  if (total != want) return TN_E_ARG;
  for (uint32_t row = 0; row < n_rows; row++) {
    float *to = dst + (int64_t)row * total;
    for (uint32_t r = 0; r < t->world; r++) {
      memcpy(to, t->stage[r] + (int64_t)row * t->cols[r], (size_t)t->cols[r] * sizeof *to);
      to += t->cols[r];
    }
  }
  return TN_OK;
}

static tn_status reduce(const tn_transport *t, uint32_t n_rows, int64_t want, float *dst)
{
  for (uint32_t r = 0; r < t->world; r++)
    if (t->cols[r] != want) return TN_E_ARG;
  size_t n = (size_t)n_rows * (size_t)want;
  memcpy(dst, t->stage[0], n * sizeof *dst);
  for (uint32_t r = 1; r < t->world; r++)
    for (size_t i = 0; i < n; i++) dst[i] += t->stage[r][i];
  return TN_OK;
}

static tn_status send_rows(tn_transport *t, const tn_rank *rank, const tn_tensor *in, uint32_t n_rows)
{
  if (!await(t, &t->full[rank->index], 1)) return TN_E_STATE;
  t->cols[rank->index] = in->ne[0];
  tn_status st = fetch(rank, in, n_rows, t->stage[rank->index]);
  atomic_store_explicit(&t->full[rank->index], 1, memory_order_release);
  return st;
}

static tn_status recv_rows(tn_transport *t, const tn_rank *rank, uint32_t peer, const tn_tensor *out, uint32_t n_rows)
{
  if (!await(t, &t->full[peer], 0)) return TN_E_STATE;
  tn_status st = t->cols[peer] == out->ne[0] ? store(rank, out, n_rows, t->stage[peer]) : TN_E_ARG;
  atomic_store_explicit(&t->full[peer], 0, memory_order_release);
  return st;
}

static tn_status collect(tn_transport *t, const tn_rank *rank, const tn_op *op, const tn_tensor *in,
                         const tn_tensor *out, uint32_t n_rows)
{
  uint32_t me = rank->index;
  bool give = op->p.coll.kind != TN_COLL_BROADCAST || op->p.coll.peer == me;
  tn_status st = TN_OK;
  if (give) {
    t->cols[me] = in->ne[0];
    st = fetch(rank, in, n_rows, t->stage[me]);
  }
  if (st != TN_OK) return st;
  if (!barrier(t)) return TN_E_STATE;
  const float *result = t->work[me];
  if (op->p.coll.kind == TN_COLL_ALL_GATHER)
    st = gather(t, n_rows, out->ne[0], t->work[me]);
  else if (op->p.coll.kind == TN_COLL_ALL_REDUCE)
    st = reduce(t, n_rows, out->ne[0], t->work[me]);
  else
    result = t->stage[op->p.coll.peer];
  if (st == TN_OK && out) st = store(rank, out, n_rows, result); /* who broadcasts has them already */
  if (st != TN_OK) return st;
  return barrier(t) ? TN_OK : TN_E_STATE; /* nobody refills a stage that another still reads */
}

tn_status tn_transport_exchange(tn_transport *t, const tn_rank *rank, const tn_op *op, const tn_tensor *in,
                                const tn_tensor *out, uint32_t n_rows)
{
  const tn_tensor *any = in ? in : out;
  if (n_rows > t->max_rows || !any || any->ne[0] > t->max_cols || op->p.coll.peer >= t->world) return TN_E_ARG;
  if (in && out && (in->ne[0] > t->max_cols || out->ne[0] > t->max_cols)) return TN_E_ARG;
  switch (op->p.coll.kind) {
    case TN_COLL_SEND: return send_rows(t, rank, in, n_rows);
    case TN_COLL_RECV: return recv_rows(t, rank, op->p.coll.peer, out, n_rows);
    default: return collect(t, rank, op, in, out, n_rows);
  }
}
