/* probe_rig: compositions of probe plugins on the engine rig, and a look into the engine that runs them. */
#ifndef TN_TESTS_PROBE_RIG_H
#define TN_TESTS_PROBE_RIG_H

#include "engine/engine_int.h"
#include "plugins/probe.h"
#include "support/engine_rig.h"
#include "support/tiny_model.h"

typedef struct probe_sets { /* settings of one composition */
  const char *at[41];       /* NULL-terminated; points into text */
  char text[40][128];
  uint32_t n;
} probe_sets;

/* Adds one setting, as printf. */
void probe_set(probe_sets *s, const char *fmt, ...) TN_PRINTF(2, 3);

/* ref, one thread, f32 activations; and with f32 keys and values, so that an oracle in double is close. */
void probe_base(probe_sets *s);
void probe_base_f32(probe_sets *s);

/* Opens; *s may be reused. */
rig *probe_open(const char *model, probe_sets *s);

/* The same over a model made on the spot, with a vocabulary of spec->vocab >= 259 tokens. */
rig *probe_open_spec(const tiny_spec *spec, probe_sets *s);

/* The record of a probe plugin, probe_*, or NULL. */
void *probe_record(const tn_instance *in);

/* One step. Ends the test on a failure or a breach of the KV store's invariants. */
void probe_step(rig *r);

/* Text positions of a sequence's entries in a group, ascending, those that masks hide from position `next` on left out.
 * Returns how many. */
int64_t probe_positions(const rig *r, const tn_seq *s, uint32_t group, int64_t next, int64_t *out);

/* Opens with the settings, submits the prompt (scored, or generating n_new tokens), runs to the end. */
rig *probe_run(const char *model, probe_sets *s, const int32_t *prompt, int64_t n, int64_t n_new);

/* All results of both are equal bitwise, and none is an error. */
void probe_equal(const char *what, const rig *a, const rig *b);

#endif
