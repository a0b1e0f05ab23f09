/* builder: what it refuses, and in which words. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <string.h>

#include "builder_help.h"

static fixture f;

static void open_fixture(void) { f = fixture_open(&(tiny_spec){.biases = true, .dh = 32, .heads = 4, .kv_heads = 2}); }
static void close_fixture(void) { fixture_close(&f); }
TestSuite(builder_errors, .init = open_fixture, .fini = close_fixture);

Test(builder_errors, groups)
{
  tn_build in = fixture_build(&f);
  const tn_kv_group *twice[2] = {f.groups[0], f.groups[0]};
  tn_kv_group g = *f.groups[0];
  const tn_kv_group *one[1] = {&g};
  in.n_groups = 0;
  expect_refused(&in, TN_E_ARG, "tiny.gguf: layer 0, KV head 0 is in no KV group");
  in.groups = twice;
  in.n_groups = 2;
  expect_refused(&in, TN_E_ARG, "layer 0, KV head 0 is in KV groups 0 and 1");
  in.groups = one;
  in.n_groups = 1;
  g.n_heads = 1;
  expect_refused(&in, TN_E_ARG, "layer 0, KV head 1 is in no KV group");
  g.n_heads = 2;
  g.d_v = 16;
  expect_refused(&in, TN_E_ARG, "KV group 0 has keys of 32 and values of 16 columns, the model's heads have 32");
  g.d_v = 32;
  g.kind = TN_KV_STATE;
  expect_refused(&in, TN_E_ARG, "attention of layer 0, KV head 0 is softmax, but KV group 0 holds a state");
}

Test(builder_errors, groups_outside_the_model)
{
  tn_build in = fixture_build(&f);
  static const int32_t layers[1] = {3}, heads[2] = {0, -1};
  tn_kv_group g = *f.groups[0];
  const tn_kv_group *one[1] = {&g};
  in.groups = one;
  g.layers = layers;
  g.n_layers = 1;
  expect_refused(&in, TN_E_ARG, "KV group 0 has layer 3, KV head 0; the model has 3 layers of 2");
  g.layers = f.groups[0]->layers;
  g.heads = heads;
  expect_refused(&in, TN_E_ARG, "KV group 0 has layer 0, KV head -1");
}

Test(builder_errors, attention_specs)
{
  tn_attn_spec bad = {.struct_size = sizeof bad, .kind = TN_AT_MASK, .mask = TN_MASK_ALL}, good = bad;
  const tn_attn_spec *specs[6] = {&good, &good, &good, &bad, &good, &good};
  tn_build in = fixture_build(&f);
  in.attn = specs;
  bad.mask.stride = 0;
  expect_refused(&in, TN_E_ARG, "attention mask of layer 1, KV head 1: lo 0");
  bad.mask = (tn_mask){5, 5, 1, 0, 0};
  expect_refused(&in, TN_E_ARG, "lo 5, hi 5, stride 1, residue 0, sinks 0 is no mask");
  bad.mask = (tn_mask){0, 5, 2, 2, 0};
  expect_refused(&in, TN_E_ARG, "residue 2");
  bad.mask = (tn_mask){0, 5, 1, 0, -1};
  expect_refused(&in, TN_E_ARG, "sinks -1");
  bad = good;
  bad.kind = 9;
  expect_refused(&in, TN_E_ARG, "attention of layer 1, KV head 1 is of kind 9, allowed are 1 to 3");
  bad.kind = TN_AT_STATE;
  expect_refused(&in, TN_E_ARG, "layer 1, KV head 1 is recurrent without a state");
  tn_state_spec s = {.struct_size = sizeof s, .phi = TN_PHI_ELU1, .fold = 64};
  bad.state = &s;
  expect_refused(&in, TN_E_ARG, "layer 1, KV head 1 is recurrent, but KV group 0 holds a cache");
}

Test(builder_errors, eviction_mask)
{
  tn_evict_spec e = {.struct_size = sizeof e, .kind = TN_EV_POSITION, .mask = {0, 0, 1, 0, 0}};
  tn_build in = fixture_build(&f);
  in.evict = &e;
  expect_refused(&in, TN_E_ARG, "eviction mask: lo 0, hi 0, stride 1 is no mask");
}

Test(builder_errors, taps_and_observers)
{
  static const int32_t taps[2] = {2, 3};
  static const char *const names[2] = {"blk.0.attn_q.weight", "blk.0.attn_norm.weight"};
  tn_build in = fixture_build(&f);
  in.taps = taps;
  in.n_taps = 2;
  expect_refused(&in, TN_E_ARG, "tap 1 wants the rows of layer 3, the model has 3 layers");
  in.n_taps = 0;
  in.observe = names;
  in.n_observe = 2;
  expect_refused(&in, TN_E_ARG, "'blk.0.attn_norm.weight' is to be observed, but no linear");
}

Test(builder_errors, bias_behind_a_divided_sum)
{
  tn_par_plan par = tn_par_whole(f.model);
  tn_build in = fixture_build(&f);
  par.world = 2;
  par.n_heads = 2;
  par.n_kv_heads = 1;
  in.par = &par;
  expect_refused(&in, TN_E_UNSUPPORTED, "blk.0.attn_output.bias: a bias behind a sum that is divided among ranks");
}

Test(builder_errors, no_error_text_wanted)
{
  tn_build in = fixture_build(&f);
  tn_built *b = NULL;
  in.n_groups = 0;
  cr_expect(eq(i32, tn_program_build(&in, &b, NULL), TN_E_ARG));
  cr_expect(b == NULL);
}
