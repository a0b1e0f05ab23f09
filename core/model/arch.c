/* arch: see arch.h. The two tables, and their look-ups. */
#include "arch.h"

#include <stdio.h>
#include <string.h>

#include "arch_int.h"

/* clang-format off */
static const tn_part_info parts[TN_N_PARTS] = {
  [TN_PART_TOKEN_EMBD]     = {"token_embd", "token_embd", TN_ROLE_EMBED, TN_DIM_VOCAB, TN_DIM_D, false},
  [TN_PART_OUTPUT_NORM]    = {"output_norm", "output_norm", TN_ROLE_NORM, TN_DIM_ONE, TN_DIM_D, false},
  [TN_PART_OUTPUT]         = {"output", "output", TN_ROLE_HEAD, TN_DIM_VOCAB, TN_DIM_D, false},
  [TN_PART_ROPE_FREQS]     = {"rope_freqs", "rope_freqs", TN_ROLE_OTHER, TN_DIM_ONE, TN_DIM_ROPE_HALF, false},
  [TN_PART_ROPE_LONG]      = {"rope_factors_long", "rope_long", TN_ROLE_OTHER, TN_DIM_ONE, TN_DIM_ROPE_HALF, false},
  [TN_PART_ROPE_SHORT]     = {"rope_factors_short", "rope_short", TN_ROLE_OTHER, TN_DIM_ONE, TN_DIM_ROPE_HALF, false},
  [TN_PART_ATTN_NORM]      = {"attn_norm", "attn_norm", TN_ROLE_NORM, TN_DIM_ONE, TN_DIM_D, true},
  [TN_PART_ATTN_Q]         = {"attn_q", "attn_q", TN_ROLE_Q, TN_DIM_Q, TN_DIM_D, true},
  [TN_PART_ATTN_K]         = {"attn_k", "attn_k", TN_ROLE_K, TN_DIM_KV, TN_DIM_D, true},
  [TN_PART_ATTN_V]         = {"attn_v", "attn_v", TN_ROLE_V, TN_DIM_KV, TN_DIM_D, true},
  [TN_PART_ATTN_Q_NORM]    = {"attn_q_norm", "attn_q_norm", TN_ROLE_NORM, TN_DIM_ONE, TN_DIM_DH, true},
  [TN_PART_ATTN_K_NORM]    = {"attn_k_norm", "attn_k_norm", TN_ROLE_NORM, TN_DIM_ONE, TN_DIM_DH, true},
  [TN_PART_ATTN_OUT]       = {"attn_output", "attn_out", TN_ROLE_ATTN_OUT, TN_DIM_D, TN_DIM_Q, true},
  [TN_PART_ATTN_POST_NORM] = {"post_attention_norm", "attn_post_norm", TN_ROLE_NORM, TN_DIM_ONE, TN_DIM_D, true},
  [TN_PART_FFN_NORM]       = {"ffn_norm", "ffn_norm", TN_ROLE_NORM, TN_DIM_ONE, TN_DIM_D, true},
  [TN_PART_FFN_GATE]       = {"ffn_gate", "ffn_gate", TN_ROLE_GATE, TN_DIM_FF, TN_DIM_D, true},
  [TN_PART_FFN_UP]         = {"ffn_up", "ffn_up", TN_ROLE_UP, TN_DIM_FF, TN_DIM_D, true},
  [TN_PART_FFN_DOWN]       = {"ffn_down", "ffn_down", TN_ROLE_DOWN, TN_DIM_D, TN_DIM_FF, true},
  [TN_PART_FFN_POST_NORM]  = {"post_ffw_norm", "ffn_post_norm", TN_ROLE_NORM, TN_DIM_ONE, TN_DIM_D, true},
};

#define BIT TN_PART_BIT
/* Pre-norm layers of gated feed-forward and grouped-query attention: what all of today's families share. */
#define COMMON (BIT(TN_PART_TOKEN_EMBD) | BIT(TN_PART_OUTPUT_NORM) | BIT(TN_PART_ATTN_NORM) | BIT(TN_PART_ATTN_Q) | \
                BIT(TN_PART_ATTN_K) | BIT(TN_PART_ATTN_V) | BIT(TN_PART_ATTN_OUT) | BIT(TN_PART_FFN_NORM) | \
                BIT(TN_PART_FFN_GATE) | BIT(TN_PART_FFN_UP) | BIT(TN_PART_FFN_DOWN))
#define QK_NORMS (BIT(TN_PART_ATTN_Q_NORM) | BIT(TN_PART_ATTN_K_NORM))
#define POST_NORMS (BIT(TN_PART_ATTN_POST_NORM) | BIT(TN_PART_FFN_POST_NORM))
#define QKV (BIT(TN_PART_ATTN_Q) | BIT(TN_PART_ATTN_K) | BIT(TN_PART_ATTN_V))
#define OPTIONAL (BIT(TN_PART_OUTPUT) | BIT(TN_PART_ROPE_FREQS) | BIT(TN_PART_ROPE_LONG) | BIT(TN_PART_ROPE_SHORT))

static const tn_arch archs[] = {
  {.name = "llama", .rope_style = TN_ROPE_INTERLEAVED, .act = TN_ACT_SILU, .required = COMMON, .optional = OPTIONAL,
   .rope_base = 1e4, .rope_base_local = 1e4},
  {.name = "qwen2", .rope_style = TN_ROPE_HALF, .act = TN_ACT_SILU, .required = COMMON, .optional = OPTIONAL,
   .biases = QKV, .rope_base = 1e4, .rope_base_local = 1e4},
  {.name = "qwen3", .rope_style = TN_ROPE_HALF, .act = TN_ACT_SILU, .required = COMMON | QK_NORMS,
   .optional = OPTIONAL, .rope_base = 1e4, .rope_base_local = 1e4},
  {.name = "gemma3", .rope_style = TN_ROPE_HALF, .act = TN_ACT_GELU_TANH, .required = COMMON | QK_NORMS | POST_NORMS,
   .optional = OPTIONAL, .window_pattern = 6, .n_layers_wide_scale = 62, .rope_base = 1e6, .rope_base_local = 1e4,
   .scale_embedding = true},
};
/* clang-format on */

const tn_arch *tn_arch_at(size_t i) { return i < TN_ARRAY_LEN(archs) ? &archs[i] : NULL; }

const tn_arch *tn_arch_find(tn_str name)
{
  for (size_t i = 0; i < TN_ARRAY_LEN(archs); i++) {
    if (strlen(archs[i].name) == name.n && memcmp(archs[i].name, name.p, name.n) == 0) return &archs[i];
  }
  return NULL;
}

const tn_part_info *tn_part(uint32_t part) { return &parts[part]; }

const char *tn_arch_show(tn_str s, char buf[72])
{
  size_t n = s.n < 71 ? s.n : 71;
  for (size_t i = 0; i < n; i++) buf[i] = (char)(s.p[i] >= ' ' && s.p[i] < 127 ? s.p[i] : '?');
  buf[n] = '\0';
  return buf;
}

tn_status tn_arch_unknown(const char *path, tn_str name, tn_err *err)
{
  const char *names[TN_ARRAY_LEN(archs)];
  char word[72], all[256] = "";
  size_t used = 0;
  tn_arch_show(name, word);
  for (size_t i = 0; i < TN_ARRAY_LEN(archs); i++) {
    names[i] = archs[i].name;
    int n = snprintf(all + used, sizeof all - used, "%s%s", i ? ", " : "", names[i]);
    if (n < 0 || (size_t)n >= sizeof all - used) break;
    used += (size_t)n;
  }
  const char *near = tn_nearest(word, names, TN_ARRAY_LEN(archs));
  return tn_fail(err, TN_E_UNSUPPORTED, "%s: architecture '%s' is not supported%s%s%s; supported are %s", path, word,
                 near ? " (the nearest is '" : "", near ? near : "", near ? "')" : "", all);
}
