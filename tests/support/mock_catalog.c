/* mock_catalog: see mock_catalog.h. */
#include "support/mock_catalog.h"

#include <stdio.h>
#include <string.h>

#define TOKENS(...) \
  (const char *const[]) { __VA_ARGS__, NULL }
#define NONE \
  (const char *const[]) { NULL }
#define PARAMS(...) \
  (const tn_param *const[]) { __VA_ARGS__, NULL }
#define DESC(slot_, name_, provides_, needs_, conflicts_, ...)                                                         \
  {                                                                                                                    \
    .struct_size = sizeof(tn_desc), .slot = TN_SLOT_##slot_, .slot_version = TN_SLOT_VERSION, .id = "org.mock." name_, \
    .name = name_, .version = "1.0.0", .summary = "mock of slot " #slot_, .provides = provides_, .needs = needs_,      \
    .conflicts = conflicts_, __VA_ARGS__                                                                               \
  }
#define INT(key_, def_, lo, hi, flags_)                                                                               \
  {                                                                                                                   \
    .struct_size = sizeof(tn_param), .type = TN_T_I64, .key = key_, .help = "help of " key_, .def = def_, .imin = lo, \
    .imax = hi, .flags = flags_                                                                                       \
  }

static const char *const sizes[] = {"16", "32", "64"}, *const modes[] = {"even", "odd"};
static const tn_param page_tokens = {.struct_size = sizeof(tn_param),
                                     .type = TN_T_ENUM,
                                     .key = "page_tokens",
                                     .help = "tokens a page",
                                     .def = "32",
                                     .choices = sizes,
                                     .n_choices = 3};
static const tn_param old = INT("old", "0", 0, 9, TN_P_DEPRECATED);
static const tn_param width = INT("width", "100", 1, 1000, TN_P_OUTPUT);
static const tn_param first = INT("first", "4", 0, 64, TN_P_OUTPUT), span = INT("span", "508", 1, 4096, TN_P_OUTPUT);
static const tn_param log_every = INT("log_every", "0", 0, 100, 0);
static const tn_param group = INT("group", "32", 0, 256, TN_P_OUTPUT);
static const tn_param mode = {.struct_size = sizeof(tn_param),
                              .type = TN_T_ENUM,
                              .key = "mode",
                              .help = "rounding",
                              .def = "even",
                              .choices = modes,
                              .n_choices = 2,
                              .flags = TN_P_OUTPUT};
static const tn_param table = {.struct_size = sizeof(tn_param),
                               .type = TN_T_PATH,
                               .key = "table",
                               .help = "codebook",
                               .def = "",
                               .flags = TN_P_OUTPUT};
static const tn_param factor = {.struct_size = sizeof(tn_param),
                                .type = TN_T_F64,
                                .key = "factor",
                                .help = "stretch",
                                .def = "0",
                                .fmax = 100,
                                .flags = TN_P_OUTPUT};
static const tn_param world = INT("world", "2", 1, 16, 0);

/* More ranks than heads per rank come out even is what tokens cannot say. */
static tn_status split_validate(const tn_plan *plan, const tn_value *values, tn_err *err)
{
  int64_t n = values[0].v.i;
  if (plan->world != n) return tn_fail(err, TN_E_INTERNAL, "the plan has %u ranks", plan->world);
  if (!plan->model || plan->model->n_kv_heads % n == 0) return TN_OK;
  return tn_fail(err, TN_E_ARG, "%lld ranks do not divide %u KV heads", (long long)n, plan->model->n_kv_heads);
}

static tn_status kv_layout(tn_inst *self, const tn_model_shape *shape, const tn_layout **k, const tn_layout **v,
                           tn_err *err)
{
  (void)self, (void)shape, (void)k, (void)v;
  return tn_fail(err, TN_E_UNSUPPORTED, "a mock");
}
static const tn_quantizer_v1 both = {.struct_size = sizeof both, .kv_layout = kv_layout};
static const tn_quantizer_v1 weights_only = {.struct_size = sizeof weights_only};

static const tn_desc descs[] = {
    DESC(BACKEND, "fast",
         TOKENS("attn.mask/1", "rope.renumber/1", "kv.layouts/1", "kv.per_head/1", "act.int8/1", "weight.affine/1",
                "collective/1"),
         NONE, NONE, .params = NULL),
    DESC(BACKEND, "whole",
         TOKENS("attn.mask/1", "attn.tree/1", "attn.scores/1", "attn.state/1", "rope.renumber/1", "kv.layouts/1",
                "kv.per_head/1", "act.int8/1", "weight.affine/1", "collective/1"),
         NONE, NONE, .params = NULL),
    DESC(MEMORY, "pages", TOKENS("kv.pages/1", "kv.share/1", "kv.token_drop/1"), NONE, NONE,
         .params = PARAMS(&page_tokens, &old)),
    DESC(MEMORY, "slab", TOKENS("kv.pages/1"), NONE, NONE, .params = NULL),
    DESC(ATTENTION, "plain", NONE, TOKENS("attn.mask/1"), NONE, .params = NULL),
    DESC(ATTENTION, "window", NONE, TOKENS("attn.mask/1"), NONE, .params = PARAMS(&width)),
    DESC(ATTENTION, "names", NONE, TOKENS("attn.mask/1"), TOKENS("kv.token_drop/1"), .params = NULL),
    DESC(ATTENTION, "recur", TOKENS("attn.untrained/1"), TOKENS("attn.state/1"), NONE, .params = NULL),
    DESC(EVICTION, "last", NONE, TOKENS("kv.token_drop/1", "rope.renumber/1"), NONE,
         .params = PARAMS(&first, &span, &log_every)),
    DESC(EVICTION, "heavy", TOKENS("kv.history/1"), TOKENS("kv.token_drop/1", "attn.scores/1", "kv.per_head/1"), NONE,
         .params = PARAMS(&span)),
    DESC(QUANTIZER, "q8", NONE, TOKENS("weight.affine/1", "kv.layouts/1"), NONE,
         .params = PARAMS(&group, &mode, &table), .vtable = &both),
    DESC(QUANTIZER, "wonly", NONE, TOKENS("weight.affine/1"), NONE, .params = NULL, .vtable = &weights_only),
    DESC(QUANTIZER, "odd", TOKENS("weight.untrained/1"), TOKENS("weight.affine/1"), NONE, .params = NULL,
         .vtable = &both),
    DESC(DRAFT, "look", TOKENS("draft.lossless/1"), TOKENS("kv.rollback/1"), NONE, .params = NULL),
    DESC(DRAFT, "branch", TOKENS("draft.lossless/1", "draft.tree/1"), NONE, NONE, .params = NULL),
    DESC(DRAFT, "guess", NONE, TOKENS("hidden.last/1"), NONE, .params = NULL),
    DESC(DRAFT, "alien", TOKENS("draft.lossless/1"), TOKENS("org.token/1"), NONE, .params = NULL),
    DESC(POSITION, "turn", NONE, NONE, NONE, .params = NULL),
    DESC(POSITION, "stretch", TOKENS("rope.stretch/1"), NONE, NONE, .params = PARAMS(&factor)),
    DESC(SCHEDULER, "queue", NONE, NONE, NONE, .params = NULL),
    DESC(PARALLEL, "split", NONE, TOKENS("collective/1"), TOKENS("kv.history/1"), .params = PARAMS(&world),
         .validate = split_validate),
};

#define N (sizeof descs / sizeof descs[0])

static tn_status mock_open(void *ctx, const tn_plugin_want *want, const tn_plugin **out, tn_err *err)
{
  static tn_plugin plugins[N];
  static tn_desc versioned[N];
  mock_catalog *m = ctx;
  if (want->path || want->sha256 || want->min) {
    m->last = *want;
    snprintf(m->path, sizeof m->path, "%s", want->path ? want->path : "");
    snprintf(m->sha256, sizeof m->sha256, "%s", want->sha256 ? want->sha256 : "");
    snprintf(m->min, sizeof m->min, "%s", want->min ? want->min : "");
  }
  for (size_t i = 0; i < N; i++) {
    if (descs[i].slot != want->slot || strcmp(descs[i].name, want->name) != 0) continue;
    if (m->hide && !strcmp(m->hide, want->name)) break;
    versioned[i] = descs[i];
    if (m->version) versioned[i].version = m->version;
    plugins[i] = (tn_plugin){.desc = &versioned[i]};
    *out = &plugins[i];
    return TN_OK;
  }
  return tn_fail(err, TN_E_ARG, "there is no plugin '%s'", want->name);
}

static tn_status mock_names(void *ctx, uint32_t slot, tn_names *out, tn_err *err)
{
  const mock_catalog *m = ctx;
  *out = (tn_names){0};
  for (size_t i = 0; i < N; i++) {
    if (descs[i].slot != slot || (m->hide && !strcmp(m->hide, descs[i].name))) continue;
    if (tn_names_add(out, descs[i].name)) continue;
    tn_names_free(out);
    return tn_fail(err, TN_E_NOMEM, "no memory");
  }
  return TN_OK;
}

tn_catalog mock_catalog_of(mock_catalog *m) { return (tn_catalog){m, mock_open, mock_names}; }
