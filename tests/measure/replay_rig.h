/* replay_rig: a replay of a trace on a tiny model, simulated or not. */
#ifndef TN_TESTS_REPLAY_RIG_H
#define TN_TESTS_REPLAY_RIG_H

#include "measure/replay.h"
#include "setup/setup.h"

typedef struct replay_rig {
  tn_setup s;
  tn_loader *loader;
  tn_replay *replay;
  tn_serving served;
  tn_replay_result more;
  tn_serving_figures f;
} replay_rig;

/* cost NULL: the machine's clock and the model. sets: NULL-terminated. Ends the test when it does not open. */
replay_rig *replay_open(const char *model, const tn_replay_cost *cost, const char *const *sets);

/* Simulated time and given answers, but the model is run. */
replay_rig *replay_open_with_model(const char *model, const tn_replay_cost *cost, const char *const *sets);

/* Runs it; may be called again. Ends the test on a failure. */
void replay_go(replay_rig *r, const tn_replay_cfg *cfg);
void replay_close(replay_rig *r);

#endif
