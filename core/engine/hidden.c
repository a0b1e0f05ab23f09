/* hidden: the model's last hidden row of a sequence, behind the final norm. See engine.h. */
#include "engine_int.h"

bool tn_engine_has_hidden(const tn_engine *e) { return (e->cfg.build_flags & TN_BUILD_HIDDEN) != 0; }

tn_status tn_engine_hidden(const tn_engine *e, const tn_seq *s, float *dst, tn_err *err)
{
  if (!tn_engine_has_hidden(e))
    return tn_fail(err, TN_E_UNSUPPORTED, "hidden rows are not kept: open the engine with TN_BUILD_HIDDEN");
  if (s->run == 0) return tn_fail(err, TN_E_STATE, "the sequence was in no step yet");
  const tn_rank *r = &e->exec->ranks[0];
  const tn_tensor *t = &r->taps[e->dr.spec.n_taps]; /* behind the drafter's */
  uint64_t row = (uint64_t)s->row0 + s->run - 1;
  tn_status st = r->b->download(r->backend.inst, t->buf, t->offset + row * (uint64_t)t->nb[1], dst,
                                (uint64_t)t->ne[0] * sizeof *dst);
  if (st == TN_OK) st = r->b->sync(r->backend.inst);
  return st == TN_OK ? st : tn_fail(err, st, "hidden rows cannot be read: %s", tn_status_name(st));
}
