/* Opening a model, building its program and loading its weights, with each allocation failing in turn: TN_E_NOMEM, and
 * nothing stays behind. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <string.h>

#include "model/weights.h"
#include "oom.h"
#include "support/fake_backend.h"
#include "support/tiny_model.h"

static void *bytes;
static size_t n_bytes;

static void write_model(void)
{
  gguf_writer *w = tiny_writer(&(tiny_spec){.arch = "gemma3", .layers = 2, .window = 8, .dh = 32, .dtype = TN_DT_Q8_0});
  bytes = gguf_writer_bytes(w, &n_bytes);
  gguf_writer_free(w);
}

static tn_model *open_model(void)
{
  tn_model *m = NULL;
  cr_assert(tn_model_open_mem(bytes, n_bytes, "tiny.gguf", &m, NULL) == TN_OK);
  return m;
}

static void remove_model(void) { free(bytes); }
TestSuite(oom_model, .init = write_model, .fini = remove_model);

/* What one attempt with the n-th allocation failing must have done. True when there was no n-th allocation. */
static bool judge(tn_status st, const void *out, int64_t live, uint64_t n)
{
  bool was = oom_fired();
  if (!was) {
    cr_expect(st == TN_OK && out != NULL, "allocation %lu: %s", (unsigned long)n, tn_status_name(st));
    return true;
  }
  cr_expect(st == TN_E_NOMEM && out == NULL, "allocation %lu: %s", (unsigned long)n, tn_status_name(st));
  cr_expect(oom_live() == live, "allocation %lu: %ld stay behind", (unsigned long)n, (long)(oom_live() - live));
  return false;
}

Test(oom_model, open)
{
  uint64_t n = 0;
  for (bool last = false; !last;) {
    int64_t live = oom_live();
    tn_model *m = NULL;
    tn_err err = tn_err_init();
    oom_arm(++n);
    tn_status st = tn_model_open_mem(bytes, n_bytes, "tiny.gguf", &m, &err);
    last = judge(st, m, live, n);
    tn_model_close(m);
    cr_expect(oom_live() == live);
  }
  cr_expect(n > 8);
}

Test(oom_model, build)
{
  static const int32_t taps[2] = {0, TN_TAP_POST_NORM};
  static const tn_evict_spec evict = {
      .struct_size = sizeof evict, .kind = TN_EV_POSITION, .mask = {0, 12, 1, 0, 4}, .renumber = 16};
  tn_model *m = open_model();
  uint64_t n = 0;
  tn_build in = {.model = m, .evict = &evict, .flags = TN_BUILD_OBSERVE_ALL | TN_BUILD_LSE, .taps = taps, .n_taps = 2};
  tn_kv_group **groups = tiny_groups(m, 0, 2, TN_DT_F16, &in.n_groups);
  in.groups = (const tn_kv_group *const *)groups;
  for (bool last = false; !last;) {
    int64_t live = oom_live();
    tn_built *b = NULL;
    tn_err err = tn_err_init();
    oom_arm(++n);
    tn_status st = tn_program_build(&in, &b, &err);
    last = judge(st, b, live, n);
    tn_built_free(b);
    cr_expect(oom_live() == live);
  }
  cr_expect(n > 80);
  tiny_groups_free(groups, in.n_groups);
  tn_model_close(m);
}

/* A quantizer of the shortest kind: whatever codes. */
static tn_status take(tn_inst *in, const tn_tensor_info *info, const tn_layout **out, tn_err *err)
{
  static const tn_layout layout = {.struct_size = sizeof layout,
                                   .kind = TN_LAY_AFFINE,
                                   .bits = 4,
                                   .group = 16,
                                   .scale_type = TN_DT_F16,
                                   .offset = TN_OFF_MIN,
                                   .super = 2,
                                   .sub_bits = 6};
  (void)in;
  (void)err;
  *out = &layout;
  return info->role == TN_ROLE_DOWN ? TN_OK : TN_E_UNSUPPORTED;
}

static tn_status encode(tn_inst *in, const tn_layout *l, const tn_qblock *b)
{
  (void)in;
  (void)l;
  memset(b->codes, 1, (size_t)(b->n_rows * b->info->k));
  return TN_OK;
}

/* Two ranks' worth of tensors, so that columns are cut; one of them is quantized. */
Test(oom_model, load)
{
  static const tn_quantizer_v1 quantizer = {.struct_size = sizeof quantizer, .take = take, .encode = encode};
  static fake_backend back;
  tn_model *m = open_model();
  uint64_t n = 0;
  tn_par_plan half = tn_par_whole(m);
  half.world = 2, half.n_heads = 2, half.n_kv_heads = 1, half.n_ff = 64;
  tn_build in = {.model = m, .par = &half};
  tn_kv_group **groups = tiny_groups(m, 0, 1, TN_DT_F16, &in.n_groups);
  in.groups = (const tn_kv_group *const *)groups;
  tn_built *b = NULL;
  cr_assert(tn_program_build(&in, &b, NULL) == TN_OK);
  tn_weights_job job = {
      .model = m, .built = b, .backend = &fake_backend_v1, .backend_inst = fake_inst(&back), .quantizer = &quantizer};
  for (bool last = false; !last;) {
    int64_t live = oom_live();
    tn_weights *w = NULL;
    tn_err err = tn_err_init();
    oom_arm(++n);
    tn_status st = tn_weights_load(&job, &w, &err);
    bool was = oom_fired();
    oom_arm(0);
    cr_expect(eq(u32, back.live, st ? 0 : b->program.n_weights));
    fake_reset(&back);
    cr_expect(st == (was ? TN_E_NOMEM : TN_OK), "allocation %lu: %s", (unsigned long)n, tn_status_name(st));
    tn_weights_free(w);
    cr_expect(oom_live() == live, "allocation %lu: %ld stay behind", (unsigned long)n, (long)(oom_live() - live));
    last = !was;
  }
  cr_expect(n > 60);
  tn_built_free(b);
  tiny_groups_free(groups, in.n_groups);
  tn_model_close(m);
}
