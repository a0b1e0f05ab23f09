/* rope: rotation tables. The position plugin says how fast each pair of dimensions turns; the host makes the rows.
 *
 * Frequencies are asked once per (layer class, regime) and kept. A sequence's regime is fixed when it is admitted, so a
 * key that is in the cache never changes its angle. Thread rule: engine thread only. */
#ifndef TN_CORE_ENGINE_ROPE_H
#define TN_CORE_ENGINE_ROPE_H

#include "../model/model.h"

typedef struct tn_rope tn_rope;

typedef struct tn_rope_table {
  int64_t regime;
  double *inv_freq; /* [n_classes][dims/2] */
  double *mscale;   /* [n_classes] */
} tn_rope_table;

/* plugin is borrowed until free. */
tn_status tn_rope_new(const tn_model *m, const tn_desc *plugin, tn_inst *inst, tn_rope **out, tn_err *err);
void tn_rope_free(tn_rope *r);

/* The regime of a sequence of at most max_len tokens, and its table, made on first use. */
int64_t tn_rope_regime(const tn_rope *r, int64_t n_prompt, int64_t max_len);
tn_status tn_rope_table_for(tn_rope *r, int64_t regime, const tn_rope_table **out, tn_err *err);

/* cos and sin [dims/2] of one position in one class, times mscale. */
void tn_rope_row(const tn_rope *r, const tn_rope_table *t, uint32_t cls, int64_t pos, float *cos_row, float *sin_row);

uint32_t tn_rope_dims(const tn_rope *r);
const tn_model_shape *tn_rope_shape(const tn_rope *r);

#endif
