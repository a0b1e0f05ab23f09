/* host_params: see host_params.h. */
#include "config/host_params.h"

#include <string.h>

#include "engine/verify.h"

static const char *const activations[] = {[TN_ACTIVATIONS_F32] = "f32", [TN_ACTIVATIONS_INT8] = "int8"};
static const char *const verify[] = {
    [TN_VERIFY_GREEDY] = "greedy", [TN_VERIFY_LOSSLESS] = "lossless", [TN_VERIFY_TYPICAL] = "typical"};
static const char *const attention_kernels[] = {[TN_KERNEL_TILED] = "tiled", [TN_KERNEL_NAIVE] = "naive"};

/* clang-format off */
#define HEAD(type_, key_, unit_, def_, flags_, help_)                                              \
  .struct_size = sizeof(tn_param), .type = TN_T_##type_, .flags = flags_, .key = key_,             \
  .help = help_, .unit = unit_, .def = def_
#define INT(type, key, unit, def, lo, hi, flags, help) {HEAD(type, key, unit, def, flags, help), .imin = lo, .imax = hi}
#define F64(key, unit, def, lo, hi, flags, help) {HEAD(F64, key, unit, def, flags, help), .fmin = lo, .fmax = hi}
#define ENUM(key, list, def, flags, help) \
  {HEAD(ENUM, key, NULL, def, flags, help), .n_choices = TN_ARRAY_LEN(list), .choices = list}
#define BOOL(key, def, flags, help) {HEAD(BOOL, key, NULL, def, flags, help)}
#define PATH(key, flags, help) {HEAD(PATH, key, NULL, "", flags, help)}
/* clang-format on */

static const tn_param engine[TN_ENGINE_N] = {
    [TN_ENGINE_THREADS] =
        INT(I64, "threads", "threads", "0", 0, 256, 0, "compute threads; 0: as many CPUs as the process may use"),
    [TN_ENGINE_ACTIVATIONS] = ENUM("activations", activations, "f32", TN_P_OUTPUT,
                                   "what the inputs of matrix products are rounded to; conf/default.ini says int8"),
    [TN_ENGINE_VERIFY] = ENUM("verify", verify, "lossless", TN_P_OUTPUT, "rule by which drafted tokens are accepted"),
    [TN_ENGINE_TYPICAL_EPS] = F64("typical_eps", NULL, "0.09", 0, 1, TN_P_OUTPUT,
                                  "verify = typical: least probability that stands whatever the entropy"),
    [TN_ENGINE_TYPICAL_DELTA] =
        F64("typical_delta", NULL, "0.3", 0, 1, TN_P_OUTPUT, "verify = typical: factor of exp(-entropy)"),
    [TN_ENGINE_ATTENTION_KERNEL] = ENUM("attention_kernel", attention_kernels, "tiled", TN_P_OUTPUT,
                                        "tiled: online softmax; naive: its slow, plain twin"),
    [TN_ENGINE_SEED] = INT(I64, "seed", NULL, "0", 0, INT64_MAX, TN_P_OUTPUT,
                           "seed of requests that bring none; 0: a fresh one for each"),
    [TN_ENGINE_CTX] = INT(I64, "ctx", "tokens", "0", 0, 1 << 30, TN_P_OUTPUT,
                          "tokens that a sequence may have; 0: what the model was trained for, at most 8192"),
    [TN_ENGINE_MAX_SEQS] = INT(I64, "max_seqs", "sequences", "8", 1, 1024, 0, "sequences that run at once"),
    [TN_ENGINE_MAX_ROWS] = INT(I64, "max_rows", "tokens", "512", 1, 65536, 0, "tokens of all sequences in one step"),
    [TN_ENGINE_KV_BUDGET] = INT(BYTES, "kv_budget", "bytes", "0", 0, (int64_t)1 << 46, 0,
                                "memory for cached keys and values; 0: enough for max_seqs sequences of ctx tokens"),
    [TN_ENGINE_PREFIX_CACHE] =
        BOOL("prefix_cache", "true", 0, "keep cached entries of finished requests for those that begin alike"),
    [TN_ENGINE_MAX_QUEUED] =
        INT(I64, "max_queued", "requests", "0", 0, 1 << 20, 0, "requests that may wait; 0: no limit"),
    [TN_ENGINE_IN_FLIGHT] = INT(I64, "in_flight", "steps", "1", 1, 16, 0, "steps that may run at once"),
    [TN_ENGINE_UNFUSED] =
        BOOL("unfused", "false", 0, "run every record of the program by itself: slower, the same bits"),
    [TN_ENGINE_ALLOW_UNTRAINED] =
        BOOL("allow_untrained", "false", 0, "accept techniques that the model would have to be trained for"),
    [TN_ENGINE_WEIGHTS_CACHE] =
        BOOL("weights_cache", "true", 0, "keep weights as the backend packs them in a file for the next process"),
    [TN_ENGINE_WEIGHTS_CACHE_LIMIT] = INT(BYTES, "weights_cache_limit", "bytes", "16G", 0, (int64_t)1 << 46, 0,
                                          "of all such files, the least recently used go first; 0: no limit"),
};

static const tn_param model[TN_MODEL_N] = {[TN_MODEL_PATH] = PATH("path", 0, "the model, a GGUF file")};

static const tn_param *const engine_list[] = {&engine[0],  &engine[1],  &engine[2],  &engine[3],  &engine[4],
                                              &engine[5],  &engine[6],  &engine[7],  &engine[8],  &engine[9],
                                              &engine[10], &engine[11], &engine[12], &engine[13], &engine[14],
                                              &engine[15], &engine[16], &engine[17], NULL};
static_assert(TN_ARRAY_LEN(engine_list) == TN_ENGINE_N + 1, "every option of [engine] is listed");

static const tn_param *const model_list[] = {&model[0], NULL};
static_assert(TN_ARRAY_LEN(model_list) == TN_MODEL_N + 1, "every option of [model] is listed");

static const tn_host_section sections[] = {{"engine", engine_list}, {"model", model_list}};

const tn_host_section *tn_host_section_at(size_t i) { return i < TN_ARRAY_LEN(sections) ? &sections[i] : NULL; }

const tn_host_section *tn_host_section_find(const char *name)
{
  for (size_t i = 0; i < TN_ARRAY_LEN(sections); i++)
    if (!strcmp(sections[i].name, name)) return &sections[i];
  return NULL;
}

tn_engine_opts tn_engine_opts_of(const tn_value *v)
{
  return (tn_engine_opts){
      .threads = (uint32_t)v[TN_ENGINE_THREADS].v.i,
      .activations = (uint32_t)v[TN_ENGINE_ACTIVATIONS].v.i,
      .verify = (uint32_t)v[TN_ENGINE_VERIFY].v.i,
      .typical_eps = v[TN_ENGINE_TYPICAL_EPS].v.f,
      .typical_delta = v[TN_ENGINE_TYPICAL_DELTA].v.f,
      .attention_kernel = (uint32_t)v[TN_ENGINE_ATTENTION_KERNEL].v.i,
      .seed = (uint64_t)v[TN_ENGINE_SEED].v.i,
      .ctx = v[TN_ENGINE_CTX].v.i,
      .max_seqs = (uint32_t)v[TN_ENGINE_MAX_SEQS].v.i,
      .max_rows = (uint32_t)v[TN_ENGINE_MAX_ROWS].v.i,
      .kv_budget_bytes = (uint64_t)v[TN_ENGINE_KV_BUDGET].v.i,
      .prefix_cache = v[TN_ENGINE_PREFIX_CACHE].v.i != 0,
      .max_queued = (uint32_t)v[TN_ENGINE_MAX_QUEUED].v.i,
      .in_flight = (uint32_t)v[TN_ENGINE_IN_FLIGHT].v.i,
      .unfused = v[TN_ENGINE_UNFUSED].v.i != 0,
      .allow_untrained = v[TN_ENGINE_ALLOW_UNTRAINED].v.i != 0,
      .weights_cache = v[TN_ENGINE_WEIGHTS_CACHE].v.i != 0,
      .weights_cache_limit_bytes = (uint64_t)v[TN_ENGINE_WEIGHTS_CACHE_LIMIT].v.i,
  };
}
