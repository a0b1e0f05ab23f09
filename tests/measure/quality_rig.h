/* quality_rig: an engine with a scorer, for tests of what measures quality. */
#ifndef TN_TESTS_QUALITY_RIG_H
#define TN_TESTS_QUALITY_RIG_H

#include "measure/quality.h"

typedef struct quality_rig {
  tn_setup s;
  tn_loader *loader;
  tn_scorer *scorer;
} quality_rig;

/* A tiny model with conf/default.ini and settings, NULL-terminated. Ends the test when it does not open. */
quality_rig *quality_open(const char *model, const char *const *sets);

/* Ends the test when the engine is not as empty as it was. */
void quality_close(quality_rig *r);

static inline tn_subject quality_subject(quality_rig *r) { return (tn_subject){.setup = &r->s, .scorer = r->scorer}; }

/* Chunks over n pseudo-random tokens of a model, for tests without a text. Free with tn_chunks_free. */
tn_chunks quality_chunks(const quality_rig *r, uint32_t n_chunks, int64_t n_ctx, int64_t n_prompt);

#endif
