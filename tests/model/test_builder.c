/* builder: the listing of every architecture and of what a composition changes (tests/model/program_*.golden; written
 * anew with TN_GOLDEN_UPDATE=1), and what holds for every program. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <string.h>

#include "builder_help.h"

Test(builder, llama)
{
  fixture f = fixture_open(&(tiny_spec){.head = true, .layers = 2});
  tn_build in = fixture_build(&f);
  expect_golden(&in, "program_llama");
  fixture_close(&f);
}

Test(builder, qwen2)
{
  fixture f = fixture_open(&(tiny_spec){.arch = "qwen2", .layers = 1});
  tn_build in = fixture_build(&f);
  expect_golden(&in, "program_qwen2");
  fixture_close(&f);
}

Test(builder, qwen3)
{
  fixture f = fixture_open(&(tiny_spec){.arch = "qwen3", .layers = 1});
  tn_build in = fixture_build(&f);
  expect_golden(&in, "program_qwen3");
  fixture_close(&f);
}

Test(builder, gemma3)
{
  fixture f = {0};
  tn_err err = tn_err_init();
  gguf_writer *w = tiny_writer(&(tiny_spec){.arch = "gemma3", .layers = 2, .window = 24});
  gguf_put_u32(w, "gemma3.attention.sliding_window_pattern", 2);
  gguf_put_f32(w, "gemma3.attn_logit_softcapping", 50);
  gguf_put_f32(w, "gemma3.final_logit_softcapping", 30);
  f.model = tiny_open_writer(w, &f.bytes, &err);
  f.groups = tiny_groups(f.model, 0, 2, TN_DT_F16, &f.n_groups);
  tn_build in = fixture_build(&f);
  expect_golden(&in, "program_gemma3");
  fixture_close(&f);
}

static const tn_evict_spec sinks = {
    .struct_size = sizeof sinks, .kind = TN_EV_POSITION, .mask = {0, 28, 1, 0, 4}, .renumber = 32};

Test(builder, sinks_get_queries_of_their_own)
{
  fixture f = fixture_open(&(tiny_spec){.arch = "gemma3", .layers = 1, .window = 24});
  tn_build in = fixture_build(&f);
  in.evict = &sinks;
  in.flags = TN_BUILD_LSE | TN_BUILD_COLSUM | TN_BUILD_KNORM;
  expect_golden(&in, "program_sinks");
  fixture_close(&f);
}

/* Layer 0: a window for both heads. 1: head 0 recurrent, head 1 softmax. 2: tile lists, softcap of its own. */
Test(builder, variants_differ_by_layer_and_head)
{
  static const tn_state_spec state = {.struct_size = sizeof state, .phi = TN_PHI_ELU1, .fold = 64, .eps = 1e-6};
  static const tn_attn_spec window = {.struct_size = sizeof window, .kind = TN_AT_MASK, .mask = {0, 16, 1, 0, 0}};
  static const tn_attn_spec full = {.struct_size = sizeof full, .kind = TN_AT_MASK, .mask = TN_MASK_ALL};
  static const tn_attn_spec linear = {.struct_size = sizeof linear, .kind = TN_AT_STATE, .state = &state};
  static const tn_attn_spec tiles = {
      .struct_size = sizeof tiles, .kind = TN_AT_TILES, .mask = {0, TN_POS_INF, 2, 0, 0}, .softcap = 20};
  static const tn_attn_spec *const specs[6] = {&window, &window, &linear, &full, &tiles, &tiles};
  static const int32_t layers[3] = {0, 2, 1}, heads[2] = {0, 1};
  tn_kv_group both = {
      .struct_size = sizeof both, .kind = TN_KV_CACHE, .n_layers = 2, .n_heads = 2, .d_k = 16, .d_v = 16};
  tn_kv_group kv = both, st = both;
  both.layers = layers;
  both.heads = heads;
  kv.layers = st.layers = &layers[2];
  kv.heads = &heads[1];
  st.heads = &heads[0];
  kv.n_layers = st.n_layers = kv.n_heads = st.n_heads = 1;
  st.kind = TN_KV_STATE;
  st.state = &state;
  const tn_kv_group *const groups[3] = {&both, &kv, &st};
  fixture f = fixture_open(&(tiny_spec){.layers = 3});
  tn_build in = {.model = f.model, .groups = groups, .n_groups = 3, .attn = specs};
  expect_golden(&in, "program_variants");
  fixture_close(&f);
}

Test(builder, raw_keys_are_rotated_by_attention)
{
  fixture f = fixture_open(&(tiny_spec){.arch = "qwen3", .layers = 1});
  f.groups[0]->keys = TN_KEYS_RAW;
  tn_build in = fixture_build(&f);
  expect_golden(&in, "program_raw");
  fixture_close(&f);
}

Test(builder, taps_and_observers)
{
  static const int32_t taps[3] = {1, TN_TAP_POST_NORM, 0};
  static const char *const observed[2] = {"blk.1.ffn_down.weight", "output.weight"};
  fixture f = fixture_open(&(tiny_spec){.layers = 2, .head = true});
  tn_build in = fixture_build(&f);
  in.taps = taps;
  in.n_taps = 3;
  in.observe = observed;
  in.n_observe = 2;
  expect_golden(&in, "program_taps");
  tn_built *b = must_build(&in);
  cr_expect(eq(u32, b->n_observed, 2));
  cr_expect(eq(str, (char *)b->needs[b->observed[0]].name, "blk.1.ffn_down.weight"));
  cr_expect(eq(str, (char *)b->needs[b->observed[1]].name, "output.weight"));
  tn_built_free(b);
  fixture_close(&f);
}

Test(builder, observe_all_means_the_layers)
{
  fixture f = fixture_open(&(tiny_spec){.layers = 2});
  tn_build in = fixture_build(&f);
  in.flags = TN_BUILD_OBSERVE_ALL;
  tn_built *b = must_build(&in);
  uint32_t n = 0;
  for (uint32_t i = 0; i < b->program.n_ops; i++) {
    const tn_op *op = b->program.ops[i];
    if (op->kind != TN_OP_OBSERVE) continue;
    const tn_op *linear = b->program.ops[i + 1];
    cr_expect(eq(u32, op->p.tap.index, n));
    cr_expect(linear->kind == TN_OP_LINEAR && linear->in[0] == op->in[0]);
    cr_expect(eq(u32, b->observed[n], (uint32_t)linear->w[0]));
    n++;
  }
  cr_expect(eq(u32, n, 14));
  cr_expect(eq(u32, b->n_observed, 14));
  tn_built_free(b);
  fixture_close(&f);
}

Test(builder, tensor_parallel)
{
  static const char *const names[2] = {"program_rank0", "program_rank1"};
  fixture f = fixture_open(&(tiny_spec){.layers = 1, .dh = 32, .heads = 2, .kv_heads = 2});
  for (uint32_t rank = 0; rank < 2; rank++) {
    tn_par_plan par = tn_par_whole(f.model);
    tn_build in = fixture_build(&f);
    par.world = 2;
    par.rank = par.head0 = par.kv_head0 = rank;
    par.n_heads = par.n_kv_heads = 1;
    par.n_ff = 64;
    par.ff0 = 64 * rank;
    par.vocab0 = rank ? 60 : 0;
    par.n_vocab = rank ? 36 : 60;
    in.par = &par;
    expect_golden(&in, names[rank]);
  }
  fixture_close(&f);
}

Test(builder, pipeline_stages)
{
  static const char *const names[3] = {"program_stage0", "program_stage1", "program_stage2"};
  static const int32_t taps[2] = {1, TN_TAP_POST_NORM};
  fixture f = fixture_open(&(tiny_spec){.layers = 3});
  for (uint32_t rank = 0; rank < 3; rank++) {
    tn_par_plan par = tn_par_whole(f.model);
    tn_build in = fixture_build(&f);
    par.world = 3;
    par.rank = par.layer0 = rank;
    par.layer1 = rank + 1;
    in.par = &par;
    in.taps = taps;
    in.n_taps = 2;
    expect_golden(&in, names[rank]);
  }
  fixture_close(&f);
}

/* Every record reads what an earlier one wrote, and writes somewhere else than it reads. */
static void check_flow(const tn_program *g)
{
  bool *written = calloc(g->n_acts, sizeof *written);
  for (uint32_t i = 0; i < g->n_ops; i++) {
    const tn_op *op = g->ops[i];
    cr_expect(op->struct_size == sizeof(tn_op));
    for (int k = 0; k < 4; k++) {
      cr_expect(op->in[k] < 0 || written[op->in[k]], "%s reads what nothing wrote", op->name);
      cr_expect(op->in[k] < 0 || (op->in[k] != op->out[0] && op->in[k] != op->out[1]), "%s works in place", op->name);
    }
    for (int k = 0; k < 2; k++)
      if (op->out[k] >= 0) written[op->out[k]] = true;
    for (uint32_t j = 0; j < i; j++) cr_expect(strcmp(op->name, g->ops[j]->name) != 0, "%s twice", op->name);
  }
  cr_expect(written[g->logits]);
  free(written);
}

Test(builder, data_flows)
{
  static const char *const archs[4] = {"llama", "qwen2", "qwen3", "gemma3"};
  for (int i = 0; i < 4; i++) {
    fixture f = fixture_open(&(tiny_spec){.arch = archs[i], .layers = 7, .window = 8});
    tn_build in = fixture_build(&f);
    in.evict = &sinks;
    tn_built *b = must_build(&in);
    check_flow(&b->program);
    cr_expect(b->program.n_acts < 30, "acts do not grow with the layers");
    tn_built_free(b);
    fixture_close(&f);
  }
}

Test(builder, finds_records_by_name)
{
  fixture f = fixture_open(&(tiny_spec){0});
  tn_build in = fixture_build(&f);
  tn_built *b = must_build(&in);
  uint32_t at = 0;
  cr_expect(tn_built_find(b, "blk.2.attn_out", &at));
  cr_expect(eq(str, (char *)b->program.ops[at]->name, "blk.2.attn_out"));
  cr_expect(not(tn_built_find(b, "blk.3.attn_out", &at)));
  tn_built_free(b);
  tn_built_free(NULL);
  fixture_close(&f);
}

Test(builder, tied_head_is_one_weight)
{
  fixture f = fixture_open(&(tiny_spec){.layers = 1});
  tn_build in = fixture_build(&f);
  tn_built *b = must_build(&in);
  uint32_t at = 0;
  cr_assert(tn_built_find(b, "output", &at));
  cr_expect(eq(i32, b->program.ops[at]->w[0], 0));
  cr_expect(eq(u32, b->needs[0].role, TN_ROLE_EMBED));
  tn_built_free(b);
  fixture_close(&f);
}

Test(builder, equal_masks_are_shared)
{
  static const tn_evict_spec window = {.struct_size = sizeof window, .kind = TN_EV_POSITION, .mask = {0, 9, 1, 0, 0}};
  fixture f = fixture_open(&(tiny_spec){.arch = "gemma3", .layers = 12, .window = 24});
  tn_build in = fixture_build(&f);
  in.evict = &window;
  tn_built *b = must_build(&in);
  uint32_t at = 0;
  cr_expect(eq(u32, b->program.n_masks, 2));
  cr_assert(tn_built_find(b, "blk.5.attend", &at)); /* global: the eviction mask alone, the tail of the local pair */
  cr_expect(eq(u32, b->program.ops[at]->p.attend.mask, 1));
  cr_expect(eq(u32, b->program.ops[at]->p.attend.n_masks, 1));
  cr_expect(eq(u32, b->program.ops[at]->p.attend.n_sinks, 0));
  tn_built_free(b);
  fixture_close(&f);
}
