/* model: what is read from a good file, and what is said about a wrong one. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/tiny_model.h"

static void done(tn_model *m, void *bytes)
{
  tn_model_close(m);
  free(bytes);
}

Test(model, llama)
{
  void *bytes;
  tn_model *m = tiny_open(&(tiny_spec){.head = true}, &bytes);
  const tn_model_shape *s = &m->shape;
  cr_expect(eq(u32, s->n_layers, 3));
  cr_expect(eq(u32, s->n_heads, 4));
  cr_expect(eq(u32, s->n_kv_heads, 2));
  cr_expect(eq(u32, s->d_model, 64));
  cr_expect(eq(u32, s->d_head, 16));
  cr_expect(eq(u32, s->d_ff, 128));
  cr_expect(eq(u32, s->n_vocab, 96));
  cr_expect(eq(u32, s->n_ctx_train, 256));
  cr_expect(eq(u32, s->rope_dims, 16));
  cr_expect(eq(u32, s->n_classes, 1));
  cr_expect(eq(str, (char *)s->arch, "llama"));
  cr_expect(eq(i64, s->class_window[0], 0));
  cr_expect(eq(dbl, s->class_rope_base[0], 10000.0));
  cr_expect(eq(u32, m->arch->rope_style, TN_ROPE_INTERLEAVED));
  cr_expect(eq(dbl, m->embed_scale, 1.0));
  cr_expect(eq(flt, m->attn_scale, 0.25f));
  cr_expect(eq(flt, m->final_softcap, 0.0f));
  cr_expect(epsilon_eq(dbl, m->norm_eps, 1e-5, 1e-11));
  cr_expect(not(m->tied_head));
  cr_expect(tn_model_tensor(m, TN_PART_ATTN_K, 2)->ne[1] == 32);
  cr_expect(tn_model_bias(m, TN_PART_ATTN_K, 2) == NULL);
  cr_expect(eq(str, (char *)m->rope[0].scaling, ""));
  cr_expect(eq(i64, m->rope[0].n_ctx_orig, 256));
  done(m, bytes);
}

Test(model, qwen2_has_biases)
{
  void *bytes;
  tn_model *m = tiny_open(&(tiny_spec){.arch = "qwen2"}, &bytes);
  cr_expect(tn_model_bias(m, TN_PART_ATTN_Q, 1)->ne[0] == 64);
  cr_expect(tn_model_bias(m, TN_PART_ATTN_V, 1)->ne[0] == 32);
  cr_expect(tn_model_bias(m, TN_PART_ATTN_OUT, 1) == NULL);
  cr_expect(m->tied_head);
  cr_expect(eq(u32, m->arch->rope_style, TN_ROPE_HALF));
  done(m, bytes);
}

Test(model, gemma3_has_local_and_global_layers)
{
  void *bytes;
  tn_model *m = tiny_open(&(tiny_spec){.arch = "gemma3", .layers = 8, .window = 24}, &bytes);
  const tn_model_shape *s = &m->shape;
  static const uint32_t classes[8] = {0, 0, 0, 0, 0, 1, 0, 0};
  cr_assert(eq(u32, s->n_classes, 2));
  for (uint32_t i = 0; i < 8; i++) cr_expect(eq(u32, s->layer_class[i], classes[i]), "layer %u", i);
  cr_expect(eq(i64, s->class_window[0], 24));
  cr_expect(eq(i64, s->class_window[1], 0));
  cr_expect(eq(dbl, s->class_rope_base[0], 1e4));
  cr_expect(eq(dbl, s->class_rope_base[1], 1e6));
  cr_expect(eq(u32, m->rope[1].cls, 1));
  cr_expect(eq(dbl, m->rope[1].base, 1e6));
  cr_expect(eq(dbl, m->embed_scale, 8.0));
  done(m, bytes);
}

Test(model, gemma3_without_window_is_one_class)
{
  void *bytes;
  tn_model *m = tiny_open(&(tiny_spec){.arch = "gemma3", .layers = 7}, &bytes);
  cr_expect(eq(u32, m->shape.n_classes, 1));
  cr_expect(eq(dbl, m->shape.class_rope_base[0], 1e6));
  done(m, bytes);
}

/* Opens what w writes, which must work. */
static tn_model *open_writer(gguf_writer *w, void **bytes)
{
  tn_err err = tn_err_init();
  tn_model *m = tiny_open_writer(w, bytes, &err);
  cr_assert(ne(ptr, m, NULL), "%s", err.msg);
  return m;
}

Test(model, window_pattern_of_the_file)
{
  static const bool local[4] = {false, true, false, true};
  void *bytes;
  gguf_writer *w = tiny_writer(&(tiny_spec){.arch = "gemma3", .layers = 4, .window = 8});
  gguf_put_bools(w, "gemma3.attention.sliding_window_pattern", local, 4);
  tn_model *m = open_writer(w, &bytes);
  for (uint32_t i = 0; i < 4; i++)
    cr_expect(eq(i64, m->shape.class_window[m->shape.layer_class[i]], local[i] ? 8 : 0), "layer %u", i);
  cr_expect(eq(u32, m->shape.layer_class[0], 0));
  done(m, bytes);

  w = tiny_writer(&(tiny_spec){.arch = "gemma3", .layers = 4, .window = 8});
  gguf_put_u32(w, "gemma3.attention.sliding_window_pattern", 2);
  m = open_writer(w, &bytes);
  for (uint32_t i = 0; i < 4; i++)
    cr_expect(eq(i64, m->shape.class_window[m->shape.layer_class[i]], i % 2 ? 0 : 8), "layer %u", i);
  done(m, bytes);
}

Test(model, scaling_is_of_layers_without_window)
{
  void *bytes;
  gguf_writer *w = tiny_writer(&(tiny_spec){.arch = "gemma3", .layers = 6, .window = 8});
  gguf_put_str(w, "gemma3.rope.scaling.type", "yarn");
  gguf_put_f32(w, "gemma3.rope.scaling.factor", 8);
  gguf_put_u32(w, "gemma3.rope.scaling.original_context_length", 64);
  gguf_put_f32(w, "gemma3.rope.scaling.yarn_beta_fast", 32);
  gguf_put_f32(w, "gemma3.rope.scaling.yarn_beta_slow", 1);
  gguf_put_f32(w, "gemma3.rope.scaling.attn_factor", 0.5f);
  tn_model *m = open_writer(w, &bytes);
  cr_expect(eq(str, (char *)m->rope[0].scaling, ""));
  cr_expect(eq(dbl, m->rope[0].factor, 0.0));
  cr_expect(eq(str, (char *)m->rope[1].scaling, "yarn"));
  cr_expect(eq(dbl, m->rope[1].factor, 8.0));
  cr_expect(eq(i64, m->rope[1].n_ctx_orig, 64));
  cr_expect(eq(i64, m->rope[1].n_ctx_train, 256));
  cr_expect(eq(dbl, m->rope[1].beta_fast, 32.0));
  cr_expect(eq(dbl, m->rope[1].beta_slow, 1.0));
  cr_expect(eq(dbl, m->rope[1].attn_factor, 0.5));
  done(m, bytes);
}

Test(model, factor_without_word_is_linear)
{
  void *bytes;
  gguf_writer *w = tiny_writer(&(tiny_spec){0});
  gguf_put_f32(w, "llama.rope.scaling.factor", 4);
  tn_model *m = open_writer(w, &bytes);
  cr_expect(eq(str, (char *)m->rope[0].scaling, "linear"));
  done(m, bytes);

  w = tiny_writer(&(tiny_spec){0});
  gguf_put_f32(w, "llama.rope.scaling.factor", 4);
  gguf_put_str(w, "llama.rope.scaling.type", "none");
  m = open_writer(w, &bytes);
  cr_expect(eq(str, (char *)m->rope[0].scaling, ""));
  done(m, bytes);
}

Test(model, rope_factors)
{
  static const float freqs[8] = {1, 1, 1, 2, 4, 8, 8, 8}, lng[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  static const int64_t ne[1] = {8};
  void *bytes;
  gguf_writer *w = tiny_writer(&(tiny_spec){0});
  gguf_put_tensor(w, "rope_freqs.weight", TN_DT_F32, 1, ne, freqs, sizeof freqs);
  gguf_put_tensor(w, "rope_factors_long.weight", TN_DT_F32, 1, ne, lng, sizeof lng);
  tn_model *m = open_writer(w, &bytes);
  cr_expect(memcmp(m->rope[0].factors_short, freqs, sizeof freqs) == 0);
  cr_expect(memcmp(m->rope[0].factors_long, lng, sizeof lng) == 0);
  done(m, bytes);
}

Test(model, scales_of_the_file)
{
  void *bytes;
  gguf_writer *w = tiny_writer(&(tiny_spec){.arch = "gemma3"});
  gguf_put_f32(w, "gemma3.attention.scale", 0.125f);
  gguf_put_f32(w, "gemma3.attn_logit_softcapping", 50);
  gguf_put_f32(w, "gemma3.final_logit_softcapping", 30);
  gguf_put_u32(w, "gemma3.rope.dimension_count", 8);
  tn_model *m = open_writer(w, &bytes);
  cr_expect(eq(flt, m->attn_scale, 0.125f));
  cr_expect(eq(flt, m->attn_softcap, 50.0f));
  cr_expect(eq(flt, m->final_softcap, 30.0f));
  cr_expect(eq(u32, m->shape.rope_dims, 8));
  done(m, bytes);
}

Test(model, widest_gemma_scales_by_width_of_heads)
{
  void *bytes;
  tn_model *m =
      tiny_open(&(tiny_spec){.arch = "gemma3", .layers = 62, .d = 32, .dh = 16, .heads = 4, .ff = 32}, &bytes);
  cr_expect(epsilon_eq(flt, m->attn_scale, 1 / sqrtf(8.0f), 1e-7f));
  done(m, bytes);
}

Test(model, head_width_defaults_to_its_share)
{
  void *bytes;
  gguf_writer *w = tiny_writer(&(tiny_spec){0});
  gguf_drop(w, "llama.attention.key_length");
  gguf_drop(w, "llama.attention.value_length");
  tn_model *m = open_writer(w, &bytes);
  cr_expect(eq(u32, m->shape.d_head, 16));
  done(m, bytes);
}

Test(model, heads_without_groups)
{
  void *bytes;
  gguf_writer *w = tiny_writer(&(tiny_spec){.kv_heads = 4});
  gguf_drop(w, "llama.attention.head_count_kv");
  tn_model *m = open_writer(w, &bytes);
  cr_expect(eq(u32, m->shape.n_kv_heads, 4));
  done(m, bytes);
}

Test(model, segments)
{
  void *bytes;
  tn_model *m = tiny_open(&(tiny_spec){.ff = 96}, &bytes);
  cr_expect(eq(u32, tn_model_segments(m, 64), 2));
  cr_expect(eq(u32, tn_model_segments(m, 96), 1));
  cr_expect(eq(u32, tn_model_segments(m, 128), 2));
  done(m, bytes);
}

/* One thing made wrong, and what is said. set: 'u' u32, 'b' u64, 'i' i32, 'f' f32, 's' text, 'd' dropped, 't' tensor
 * dropped, 'n' tensor of v f32 in one row. */
typedef struct wrong {
  const char *arch, *key;
  char set;
  double v;
  tn_status st;
  const char *says;
} wrong;

static const wrong wrongs[] = {
    {"llama", "general.architecture", 's', 0, TN_E_UNSUPPORTED,
     "architecture 'lama' is not supported (the nearest is 'llama')"},
    {"llama", "general.architecture", 'd', 0, TN_E_ARG, "general.architecture is missing"},
    {"llama", "general.architecture", 'u', 3, TN_E_ARG, "general.architecture is missing or not a string"},
    {"llama", "llama.block_count", 'u', 1e9, TN_E_ARG, "llama.block_count is 1000000000, allowed are 1 to 1024"},
    {"llama", "llama.block_count", 'b', 1e18, TN_E_ARG, "llama.block_count is 1000000000000000000, allowed"},
    {"llama", "llama.block_count", 'u', 0, TN_E_ARG, "llama.block_count is 0, allowed are 1 to 1024"},
    {"llama", "llama.block_count", 'd', 0, TN_E_ARG, "llama.block_count is missing"},
    {"llama", "llama.block_count", 'i', -3, TN_E_ARG, "llama.block_count is not one whole number"},
    {"llama", "llama.block_count", 's', 0, TN_E_ARG, "llama.block_count is not one whole number"},
    {"llama", "llama.block_count", 'u', 2, TN_E_ARG, "is of layer 2, but llama.block_count is 2"},
    {"llama", "llama.block_count", 'u', 4, TN_E_ARG,
     "tensor blk.3.attn_norm.weight is missing; architecture llama with 4 layers"},
    {"llama", "llama.attention.head_count", 'u', 0, TN_E_ARG, "llama.attention.head_count is 0, allowed are 1 to 1024"},
    {"llama", "llama.attention.head_count", 'd', 0, TN_E_ARG, "llama.attention.head_count is missing"},
    {"llama", "llama.attention.head_count", 'u', 5, TN_E_ARG,
     "llama.attention.head_count is 5, not a multiple of llama.attention.head_count_kv, 2"},
    {"llama", "llama.attention.head_count_kv", 'u', 3, TN_E_ARG,
     "head_count is 4, not a multiple of llama.attention.head_count_kv, 3"},
    {"llama", "llama.attention.head_count_kv", 'u', 8, TN_E_ARG,
     "llama.attention.head_count_kv is 8, allowed are 1 to 4"},
    {"llama", "llama.attention.head_count_kv", 'u', 0, TN_E_ARG, "llama.attention.head_count_kv is 0"},
    {"llama", "llama.attention.head_count_kv", 'u', 4, TN_E_ARG,
     "blk.0.attn_k.weight is [64, 32, 1, 1], but the metadata makes it [64, 64, 1, 1]"},
    {"llama", "llama.attention.key_length", 'u', 32, TN_E_UNSUPPORTED,
     "llama.attention.value_length is 16, the width of keys is 32"},
    {"llama", "llama.attention.key_length", 'u', 0, TN_E_ARG, "llama.attention.key_length is 0, allowed are 1 to 1024"},
    {"llama", "llama.embedding_length", 'u', 65, TN_E_ARG,
     "is [64, 96, 1, 1], but the metadata makes it [65, 96, 1, 1]"},
    {"llama", "llama.embedding_length", 'u', 4e9, TN_E_ARG,
     "llama.embedding_length is 4000000000, allowed are 1 to 1048576"},
    {"llama", "llama.feed_forward_length", 'u', 64, TN_E_ARG, "blk.0.ffn_gate.weight is [64, 128, 1, 1]"},
    {"llama", "llama.context_length", 'd', 0, TN_E_ARG, "llama.context_length is missing"},
    {"llama", "llama.vocab_size", 'u', 97, TN_E_ARG, "llama.vocab_size is 97, token_embd.weight has 96 rows"},
    {"llama", "llama.rope.dimension_count", 'u', 7, TN_E_ARG, "rotated dimensions are pairs, but there are 7"},
    {"llama", "llama.rope.dimension_count", 'u', 32, TN_E_ARG, "llama.rope.dimension_count is 32, allowed are 2 to 16"},
    {"llama", "llama.rope.freq_base", 'f', -1, TN_E_ARG, "llama.rope.freq_base is -1, allowed are 1 to"},
    {"llama", "llama.rope.freq_base", 'f', (double)NAN, TN_E_ARG, "llama.rope.freq_base is nan"},
    {"llama", "llama.attention.layer_norm_rms_epsilon", 'd', 0, TN_E_ARG, "layer_norm_rms_epsilon is missing"},
    {"llama", "llama.attention.layer_norm_rms_epsilon", 'f', 0, TN_E_ARG, "layer_norm_rms_epsilon is 0"},
    {"llama", "llama.attention.layer_norm_rms_epsilon", 's', 0, TN_E_ARG, "layer_norm_rms_epsilon is not a number"},
    {"llama", "llama.expert_count", 'u', 8, TN_E_UNSUPPORTED, "llama.expert_count is 8; mixtures of experts"},
    {"llama", "token_embd.weight", 't', 0, TN_E_ARG, "tensor token_embd.weight is missing"},
    {"llama", "output_norm.weight", 't', 0, TN_E_ARG, "tensor output_norm.weight is missing"},
    {"llama", "blk.1.ffn_up.weight", 't', 0, TN_E_ARG, "tensor blk.1.ffn_up.weight is missing"},
    {"llama", "blk.2.ffn_norm.weight", 'n', 32, TN_E_ARG,
     "blk.2.ffn_norm.weight is [32, 1, 1, 1], but the metadata makes it [64, 1, 1, 1]"},
    {"llama", "blk.0.attn_q_norm.weight", 'n', 16, TN_E_UNSUPPORTED,
     "tensor blk.0.attn_q_norm.weight is not a part of architecture llama"},
    {"llama", "blk.0.ffn_gate_inp.weight", 'n', 16, TN_E_UNSUPPORTED, "tensor blk.0.ffn_gate_inp.weight is not a part"},
    {"llama", "blk.00.ffn_norm.weight", 'n', 64, TN_E_UNSUPPORTED, "tensor blk.00.ffn_norm.weight is not a part"},
    {"llama", "blk.99999999999.ffn_norm.weight", 'n', 64, TN_E_UNSUPPORTED, "is not a part"},
    {"llama", "blk.7.ffn_norm.weight", 'n', 64, TN_E_ARG,
     "tensor blk.7.ffn_norm.weight is of layer 7, but llama.block_count is 3"},
    {"llama", "attn_norm.weight", 'n', 64, TN_E_UNSUPPORTED, "tensor attn_norm.weight is not a part"},
    {"llama", "blk.0.attn_norm.bias", 'n', 64, TN_E_UNSUPPORTED, "tensor blk.0.attn_norm.bias is not a part"},
    {"llama", "blk.0.attn_q.bias", 'n', 63, TN_E_ARG,
     "blk.0.attn_q.bias is [63, 1, 1, 1], but the metadata makes it [64, 1, 1, 1]"},
    {"llama", "rope_freqs.weight", 'n', 8, TN_E_ARG, "rope_freqs.weight[0] is 0, rope factors are positive"},
    {"llama", "rope_freqs.weight", 'n', 4, TN_E_ARG, "rope_freqs.weight is [4, 1, 1, 1]"},
    {"qwen2", "blk.1.attn_k.bias", 't', 0, TN_E_ARG, "tensor blk.1.attn_k.bias is missing"},
    {"qwen3", "blk.1.attn_k_norm.weight", 't', 0, TN_E_ARG, "tensor blk.1.attn_k_norm.weight is missing"},
    {"gemma3", "blk.2.post_ffw_norm.weight", 't', 0, TN_E_ARG, "tensor blk.2.post_ffw_norm.weight is missing"},
    {"gemma3", "gemma3.attention.sliding_window", 's', 0, TN_E_ARG, "sliding_window is not one whole number"},
    {"gemma3", "gemma3.attention.sliding_window_pattern", 'f', 1, TN_E_ARG,
     "sliding_window_pattern is not one whole number"},
};

static void spoil(gguf_writer *w, const wrong *x)
{
  int64_t ne = (int64_t)x->v;
  switch (x->set) {
    case 'u': gguf_put_u32(w, x->key, (uint32_t)x->v); break;
    case 'b': gguf_put_u64(w, x->key, (uint64_t)x->v); break;
    case 'i': gguf_put_i32(w, x->key, (int32_t)x->v); break;
    case 'f': gguf_put_f32(w, x->key, (float)x->v); break;
    case 's': gguf_put_str(w, x->key, "lama"); break;
    case 'd': gguf_drop(w, x->key); break;
    case 't': gguf_drop_tensor(w, x->key); break;
    default: gguf_put_tensor(w, x->key, TN_DT_F32, 1, &ne, NULL, (size_t)ne * sizeof(float)); break;
  }
}

Test(model, wrong_files_are_refused_with_the_reason)
{
  for (size_t i = 0; i < TN_ARRAY_LEN(wrongs); i++) {
    const wrong *x = &wrongs[i];
    tn_err err = tn_err_init();
    void *bytes;
    gguf_writer *w = tiny_writer(&(tiny_spec){.arch = x->arch, .window = 8});
    spoil(w, x);
    tn_model *m = tiny_open_writer(w, &bytes, &err);
    cr_expect(m == NULL, "%s %s: opened", x->arch, x->key);
    cr_expect(err.code == x->st, "%s %s: %s (%s)", x->arch, x->key, tn_status_name(err.code), err.msg);
    cr_expect(strstr(err.msg, x->says) != NULL, "%s %s: want '%s', got '%s'", x->arch, x->key, x->says, err.msg);
    cr_expect(strncmp(err.msg, "tiny.gguf: ", 11) == 0, "%s", err.msg);
    tn_model_close(m);
    free(bytes);
  }
}

Test(model, wrong_window_flags)
{
  static const uint32_t two[3] = {0, 1, 2};
  static const bool few[2] = {true, false};
  for (int i = 0; i < 2; i++) {
    tn_err err = tn_err_init();
    void *bytes;
    gguf_writer *w = tiny_writer(&(tiny_spec){.arch = "gemma3", .window = 8});
    if (i)
      gguf_put_u32s(w, "gemma3.attention.sliding_window_pattern", two, 3);
    else
      gguf_put_bools(w, "gemma3.attention.sliding_window_pattern", few, 2);
    cr_expect(tiny_open_writer(w, &bytes, &err) == NULL);
    cr_expect(strstr(err.msg, i ? "something else than one flag" : "has 2 flags for 3 layers") != NULL, "%s", err.msg);
    free(bytes);
  }
}

Test(model, integers_cannot_be_weights)
{
  static const int64_t ne[2] = {64, 96};
  tn_err err = tn_err_init();
  void *bytes;
  gguf_writer *w = tiny_writer(&(tiny_spec){0});
  gguf_put_tensor(w, "token_embd.weight", TN_DT_I32, 2, ne, NULL, 64 * 96 * 4);
  cr_expect(tiny_open_writer(w, &bytes, &err) == NULL);
  cr_expect(strstr(err.msg, "token_embd.weight is of type 26 (i32), which does not decode") != NULL, "%s", err.msg);
  free(bytes);
}

static bool at_most(void *ctx, double d)
{
  double *limit = ctx;
  return d <= *limit;
}

Test(model, progress_can_cancel)
{
  char path[] = "/tmp/tenon-model-XXXXXX";
  int fd = mkstemp(path);
  size_t n;
  gguf_writer *w = tiny_writer(&(tiny_spec){0});
  void *bytes = gguf_writer_bytes(w, &n);
  cr_assert(fd >= 0 && write(fd, bytes, n) == (ssize_t)n);
  close(fd);
  tn_err err = tn_err_init();
  tn_model *m = NULL;
  double limit = 0.5;
  cr_expect(eq(i32, tn_model_open(path, at_most, &limit, &m, &err), TN_E_STATE));
  cr_expect(m == NULL);
  limit = 1;
  cr_expect(eq(i32, tn_model_open(path, at_most, &limit, &m, &err), TN_OK));
  tn_model_close(m);
  unlink(path);
  cr_expect(eq(i32, tn_model_open(path, NULL, NULL, &m, &err), TN_E_IO));
  gguf_writer_free(w);
  free(bytes);
}
