/* fuzz_model: bytes as a model file; what opens is built, whole and as one of two ranks. */
#include <stdlib.h>
#include <string.h>

#include "model/builder.h"
#include "support/tiny_model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void build(const tn_model *m, const tn_par_plan *par)
{
  static const int32_t taps[2] = {0, TN_TAP_POST_NORM};
  static const tn_evict_spec evict = {
      .struct_size = sizeof evict, .kind = TN_EV_POSITION, .mask = {0, 12, 1, 0, 4}, .renumber = 16};
  tn_err err = tn_err_init();
  tn_built *b = NULL;
  tn_build in = {.model = m, .par = par, .evict = &evict, .taps = taps, .n_taps = 2, .flags = TN_BUILD_OBSERVE_ALL};
  tn_kv_group **groups = tiny_groups(m, 0, m->shape.n_kv_heads, TN_DT_F16, &in.n_groups);
  in.groups = (const tn_kv_group *const *)groups;
  tn_status st = tn_program_build(&in, &b, &err);
  if (st && !err.msg[0]) abort(); /* a refusal says why */
  if (!st && b->program.n_ops < 4) abort();
  tn_built_free(b);
  tiny_groups_free(groups, in.n_groups);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  tn_err err = tn_err_init();
  tn_model *m = NULL;
  void *copy = malloc(size ? size : 1); /* aligned, as a mapping is */
  if (!copy) return 0;
  memcpy(copy, data, size);
  tn_status st = tn_model_open_mem(copy, size, "fuzz.gguf", &m, &err);
  if (st && (m || !err.msg[0])) abort();
  if (!st) {
    tn_par_plan half = tn_par_whole(m);
    half.world = 2;
    half.n_heads /= 2, half.n_kv_heads /= 2, half.n_ff /= 2;
    build(m, NULL);
    build(m, &half);
  }
  tn_model_close(m);
  free(copy);
  return 0;
}
