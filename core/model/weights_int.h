/* weights_int: how one tensor gets to the backend. Private to core/model. */
#ifndef TN_CORE_MODEL_WEIGHTS_INT_H
#define TN_CORE_MODEL_WEIGHTS_INT_H

#include "weights.h"

/* TN_E_* with the file and the tensor in front. Returns st. */
tn_status tn_weight_fail(const tn_weights_job *job, const tn_weight_need *need, tn_err *err, tn_status st,
                         const char *fmt, ...) TN_PRINTF(5, 6);

/* src, of kind and data filled, to the backend; the rest of it comes from need. */
tn_status tn_weight_hand_over(const tn_weights_job *job, const tn_weight_need *need, tn_weight_src *src, tn_tensor *out,
                              tn_err *err);

/* Asks the quantizer: *layout is NULL when the tensor stays as it is. */
tn_status tn_weight_take(const tn_weights_job *job, const tn_weight_need *need, const tn_layout **layout, tn_err *err);

/* Decodes, encodes in the layout and loads. */
tn_status tn_weight_load_quantized(const tn_weights_job *job, const tn_weight_need *need, const tn_layout *layout,
                                   tn_tensor *out, tn_err *err);

#endif
