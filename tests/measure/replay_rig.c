/* replay_rig: see replay_rig.h. */
#include "replay_rig.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#include "support/engine_rig.h"

static replay_rig *open_rig(const char *model, const tn_replay_cost *cost, bool null_forward, const char *const *sets)
{
  replay_rig *r = tn_zalloc(1, sizeof *r);
  size_t n = 0;
  tn_err err = tn_err_init();
  while (sets && sets[n]) n++;
  tn_loader_cfg cfg = {.path = TN_BUILD_DIR "/tests/plugins", .lib_dir = TN_BUILD_DIR "/lib/tenon"};
  cr_assert(tn_loader_new(&cfg, &r->loader, &err) == TN_OK, "%s", err.msg);
  r->replay = tn_replay_new(cost);
  tn_setup_args a = {.sets = sets,
                     .n_sets = n,
                     .model = rig_tiny(model),
                     .conf_dir = TN_SOURCE_DIR "/conf",
                     .loader = r->loader,
                     .events = tn_replay_events(r->replay),
                     .clock = tn_replay_now,
                     .clock_ctx = r->replay,
                     .null_forward = null_forward};
  cr_assert(tn_setup_open(&a, &r->s, &err) == TN_OK, "%s: %s", model, err.msg);
  return r;
}

replay_rig *replay_open(const char *model, const tn_replay_cost *cost, const char *const *sets)
{
  return open_rig(model, cost, cost != NULL, sets);
}

replay_rig *replay_open_with_model(const char *model, const tn_replay_cost *cost, const char *const *sets)
{
  return open_rig(model, cost, false, sets);
}

void replay_go(replay_rig *r, const tn_replay_cfg *cfg)
{
  tn_err err = tn_err_init();
  tn_serving_release(&r->served);
  cr_assert(tn_replay_run(r->replay, r->s.engine, cfg, &r->served, &r->more, &err) == TN_OK, "%s", err.msg);
  cr_assert(tn_serving_sum(&r->served, 0, 0, &r->f, &err) == TN_OK, "%s", err.msg);
  cr_assert(tn_engine_idle(r->s.engine) && tn_engine_check(r->s.engine, &err), "%s", err.msg);
}

void replay_close(replay_rig *r)
{
  cr_assert(tn_engine_stat(r->s.engine).kv_bytes_used == 0, "pages were left behind");
  tn_serving_release(&r->served);
  tn_setup_close(&r->s);
  tn_replay_free(r->replay);
  tn_loader_free(r->loader);
  free(r);
}
