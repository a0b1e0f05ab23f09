/* Two ranks give the bits of one: on both backends, on every model with two KV heads, beside other policies. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

#include "same_bits.h"

#define EQUAL(name_, model_, ...)                                                                        \
  Test(engine_tensor_parallel, name_)                                                                    \
  {                                                                                                      \
    static const char *const one[] = {"engine.threads=1", __VA_ARGS__, NULL};                            \
    static const char *const two[] = {"engine.threads=2", __VA_ARGS__, "compose.parallel=tensor", NULL}; \
    same_bits_equal(rig_tiny(model_), one, two, SAME_FEW);                                               \
  }
EQUAL(cpu_llama, "llama", "compose.backend=cpu")
EQUAL(cpu_qwen2, "qwen2", "compose.backend=cpu")
EQUAL(cpu_qwen3, "qwen3", "compose.backend=cpu")
EQUAL(cpu_gemma3, "gemma3", "compose.backend=cpu")
EQUAL(cpu_f32, "llama", "compose.backend=cpu", "engine.activations=f32")
EQUAL(cpu_speculation, "llama", "compose.backend=cpu", "compose.draft=ngram")
EQUAL(cpu_streaming, "llama", "compose.backend=cpu", "compose.eviction=streaming_llm",
      "eviction.streaming_llm.window=28")
EQUAL(cpu_kv_int8, "llama", "compose.backend=cpu", "compose.kv=int8", "quantizer.int8@kv.group=32")
EQUAL(cpu_weights_int8, "llama", "compose.backend=cpu", "compose.weights=int8")
EQUAL(cpu_little_memory, "llama", "compose.backend=cpu", "engine.kv_budget=250K")
EQUAL(ref_tied, "llama-tied", "compose.backend=ref")
EQUAL(ref_gemma3, "gemma3", "compose.backend=ref")

Test(engine_tensor_parallel, each_rank_holds_its_share)
{
  static const char *const one[] = {"compose.backend=cpu", NULL};
  static const char *const two[] = {"compose.backend=cpu", "compose.parallel=tensor", NULL};
  rig *a = rig_open(rig_tiny("llama"), one), *b = rig_open(rig_tiny("llama"), two);
  tn_engine_info x = tn_engine_stat(a->s.engine), y = tn_engine_stat(b->s.engine);
  cr_expect(x.world == 1 && y.world == 2);
  cr_expect(eq(u64, x.kv_bytes_total, y.kv_bytes_total), "the cache is divided, not doubled");
  cr_expect(eq(u64, rig_counter(b, "parallel", 0), 2));
  rig_close(a);
  rig_close(b);
}

Test(engine_tensor_parallel, what_does_not_divide_is_refused_at_load)
{
  static const char *const three[] = {"compose.backend=cpu", "compose.parallel=tensor", "parallel.tensor.world=3",
                                      NULL};
  rig *r;
  tn_err err = tn_err_init();
  cr_expect(rig_try(rig_tiny("llama"), three, &r, &err) != TN_OK);
  cr_expect(strstr(err.msg, "world = 3") && strstr(err.msg, "KV heads (2)"), "%s", err.msg);
}
