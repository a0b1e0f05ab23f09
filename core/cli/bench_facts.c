/* bench_facts: what ran, where: the fields that every result of `tenon bench` carries. See bench_out.h. */
#include <string.h>

#include "cli/bench_out.h"

/* general.file_type of a model file. */
static const char *file_type(uint64_t t)
{
  static const char *const names[] = {
      [0] = "F32",     [1] = "F16",     [2] = "Q4_0",    [3] = "Q4_1",    [7] = "Q8_0",
      [8] = "Q5_0",    [9] = "Q5_1",    [10] = "Q2_K",   [11] = "Q3_K_S", [12] = "Q3_K_M",
      [13] = "Q3_K_L", [14] = "Q4_K_S", [15] = "Q4_K_M", [16] = "Q5_K_S", [17] = "Q5_K_M",
      [18] = "Q6_K",   [25] = "IQ4_NL", [30] = "IQ4_XS", [32] = "BF16"};
  return t < TN_ARRAY_LEN(names) && names[t] ? names[t] : "";
}

/* "llama 135M Q4_1" */
static void model_type(const tn_model *m, uint64_t params, char out[128])
{
  tn_str label;
  char size[32];
  uint64_t type = UINT64_MAX;
  snprintf(size, sizeof size, params < 1000000000u ? "%.0fM" : "%.1fB",
           (double)params / (params < 1000000000u ? 1e6 : 1e9));
  if (tn_gguf_string(m->gguf, "general.size_label", &label) && label.n < sizeof size)
    snprintf(size, sizeof size, "%.*s", (int)label.n, label.p);
  (void)tn_gguf_u64(m->gguf, "general.file_type", &type);
  snprintf(out, 128, "%s %s %s", m->arch->name, size, file_type(type));
}

/* The processor's name as Linux gives it, "" when it does not. */
static void processor(char out[128])
{
  char line[512];
  out[0] = '\0';
  FILE *f = fopen("/proc/cpuinfo", "re");
  if (!f) return;
  while (out[0] == '\0' && fgets(line, sizeof line, f)) {
    char *at = strncmp(line, "model name", 10) == 0 ? strchr(line, ':') : NULL;
    if (at) snprintf(out, 128, "%.*s", (int)strcspn(at + 2, "\n"), at + 2);
  }
  fclose(f);
}

/* Values of a key that a user may have changed: the plugin's name, or what stands for none. */
static const char *part(const tn_setup *s, const char *key, const char *none)
{
  const tn_choice *c = tn_composition_part(s->composition, key);
  return c ? c->desc->name : none;
}

json_t *tn_bench_composition(const tn_composition *c)
{
  json_t *j = json_object();
  for (size_t i = 0; i < tn_composition_n(c); i++)
    json_object_set_new(j, tn_composition_at(c, i)->key, json_string(tn_composition_at(c, i)->desc->name));
  return j;
}

static void sizes(const tn_model *m, uint64_t *bytes, uint64_t *params)
{
  *bytes = *params = 0;
  for (uint64_t i = 0; i < tn_gguf_n_tensors(m->gguf); i++) {
    const tn_gguf_tensor *t = tn_gguf_tensor_at(m->gguf, i);
    *bytes += t->bytes;
    *params += (uint64_t)t->ne[0] * (uint64_t)t->ne[1] * (uint64_t)t->ne[2] * (uint64_t)t->ne[3];
  }
}

json_t *tn_bench_facts(const tn_setup *s)
{
  tn_engine_info e = tn_engine_stat(s->engine);
  char cpu[128], type[128], print[TN_FINGERPRINT_HEX + 1];
  uint64_t bytes, params;
  bool host = tn_bench_on_host(s->engine);
  sizes(s->model, &bytes, &params);
  model_type(s->model, params, type);
  processor(cpu);
  tn_composition_short(s->composition, print);
  json_t *j = json_pack("{s:s, s:i, s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:i, s:i, s:i, s:s, s:b, s:i}", "build_commit",
                        TN_VERSION, "build_number", 0, "cpu_info", cpu, "gpu_info", host ? "" : e.device, "backends",
                        part(s, "backend", ""), "model_filename", tn_gguf_path(s->model->gguf), "model_type", type,
                        "model_size", (json_int_t)bytes, "model_n_params", (json_int_t)params, "n_batch",
                        (int)e.max_rows, "n_ubatch", (int)e.max_rows, "n_threads", (int)e.threads, "cpu_mask", "0x0",
                        "cpu_strict", 0, "poll", 50);
  json_t *more =
      json_pack("{s:s, s:s, s:i, s:s, s:i, s:b, s:b, s:s, s:b, s:b, s:s, s:s, s:s, s:o}", "type_k",
                part(s, "kv", "f16"), "type_v", part(s, "kv", "f16"), "n_gpu_layers",
                host ? 0 : (int)s->model->shape.n_layers + 1, "split_mode", part(s, "parallel", "none"), "main_gpu", 0,
                "no_kv_offload", 0, "flash_attn", s->opts.attention_kernel != TN_KERNEL_NAIVE, "tensor_split", "0.00",
                "use_mmap", 1, "embeddings", 0, "device", e.device, "weights", part(s, "weights", "as in the file"),
                "fingerprint", print, "composition", tn_bench_composition(s->composition));
  if (j && more && json_object_update(j, more) == 0) {
    json_decref(more);
    return j;
  }
  json_decref(j);
  json_decref(more);
  return NULL;
}

void tn_bench_test_name(const tn_bench_test *t, char out[64])
{
  int n = 0;
  long long p = (long long)t->n_prompt, g = (long long)t->n_gen, d = (long long)t->n_depth;
  if (p > 0) n = snprintf(out, 64, "pp%lld", p);
  if (g > 0) n += snprintf(out + n, 64 - (size_t)n, "%stg%lld", p > 0 ? "+" : "", g);
  if (d > 0) snprintf(out + n, 64 - (size_t)n, " @ d%lld", d);
}
