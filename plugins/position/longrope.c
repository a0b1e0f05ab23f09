/* longrope: every rotated pair slowed by a factor of its own, short texts and long ones by two different lists.
 *
 * Paper    Ding et al., LongRoPE, ICML 2024, section 3; file layout and attention factor as in Phi-3 (Abdin et al., 2024)
 * Maths    f_i = 1 / (lambda_i base^(2i/d));  lambda = short list while a sequence may reach at most L0 tokens, else the
 *          long one, fixed when it is admitted;  cos and sin times attn_factor, by default sqrt(1 + ln s / ln L0), in both
 * Result   exact for that embedding; another function than the one that was trained, unless the model was tuned for it
 * Cost     d/2 frequencies a layer class and list
 * Needs    factors: a file, or the tensors rope_factors_short and rope_factors_long of the model    Conflicts  -
 * Options  factors [file, default none: the model's tensors]   regime [auto, short, long; default auto]
 *          factor [s, 0..1024, default 0: the file's, or its context over L0]
 *          original_ctx [L0, tokens, 0..2^30, default 0: the file's]
 *          attn_factor [0..100, default 0: the file's, or as above]
 * Tests    tests/policy/test_longrope.c, tests/policy/test_regime.c
 *
 * A factor file has a line `long = 1.0, 1.02, ...` and, where short texts are not turned as trained, a line `short = ...`,
 * each with d/2 numbers; # and ; begin a comment. Layers with a window of their own are turned as trained.
 */
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tenon/plugin_api.h>

enum { P_FACTORS, P_REGIME, P_FACTOR, P_CTX, P_ATTN };
enum { AUTO, SHORT_TEXT, LONG_TEXT };
enum { SHORT = 0, LONG = 1, MAX_PAIRS = 512, MAX_FILE = 65536 };

struct tn_inst {
  const tn_host *host;
  const char *path;            /* of the factor file, "" for none */
  const tn_model_shape *shape; /* or NULL */
  int64_t regime, ctx;         /* ctx: L0 as far as create() can know it, 0 for not */
  int64_t original_ctx;
  double factor, attn_factor;
  uint32_t n[2]; /* numbers of each list of the file */
  double list[2][MAX_PAIRS];
};

static const char *const list_names[] = {"short", "long"};

__attribute__((format(printf, 3, 4))) static tn_status fail(tn_err *err, tn_status st, const char *fmt, ...)
{
  va_list ap;
  va_start(ap, fmt);
  err->code = st;
  vsnprintf(err->msg, sizeof err->msg, fmt, ap);
  va_end(ap);
  return st;
}

/* ---------------------------------------------------------------- the factor file */

static const char *blanks(const char *s) { return s + strspn(s, " \t\r"); }

/* The numbers after the equals sign, to the end of the line. */
static tn_status read_numbers(tn_inst *self, uint32_t list, const char *s, unsigned line, locale_t c, tn_err *err)
{
  uint32_t n = 0;
  for (s = blanks(s); *s;) {
    char *end;
    double x = strtod_l(s, &end, c);
    if (end == s || !isfinite(x) || x <= 0)
      return fail(err, TN_E_ARG, "%.300s:%u: number %u of %s is '%.20s', want a positive number", self->path, line,
                  n + 1, list_names[list], s);
    if (n == MAX_PAIRS) return fail(err, TN_E_ARG, "%.300s:%u: over %d numbers", self->path, line, (int)MAX_PAIRS);
    self->list[list][n++] = x;
    s = blanks(end);
    if (*s == ',') s = blanks(s + 1);
  }
  self->n[list] = n;
  return n ? TN_OK : fail(err, TN_E_ARG, "%.300s:%u: %s has no numbers", self->path, line, list_names[list]);
}

static tn_status read_line(tn_inst *self, char *s, unsigned line, locale_t c, tn_err *err)
{
  s[strcspn(s, "#;")] = '\0';
  const char *at = blanks(s);
  if (!*at) return TN_OK;
  for (uint32_t i = 0; i < 2; i++) {
    size_t n = strlen(list_names[i]);
    const char *equals = blanks(at + (strncmp(at, list_names[i], n) == 0 ? n : 0));
    if (equals == at || *equals != '=') continue;
    if (self->n[i]) return fail(err, TN_E_ARG, "%.300s:%u: %s a second time", self->path, line, list_names[i]);
    return read_numbers(self, i, equals + 1, line, c, err);
  }
  return fail(err, TN_E_ARG, "%.300s:%u: '%.40s' is neither 'long = ...' nor 'short = ...'", self->path, line, at);
}

static tn_status read_text(tn_inst *self, char *text, tn_err *err)
{
  locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0); /* numbers in files have a point, whatever the user's do */
  tn_status st = c ? TN_OK : TN_E_NOMEM;
  unsigned line = 0;
  for (char *s = text; st == TN_OK && s;) {
    char *end = strchr(s, '\n');
    if (end) *end++ = '\0';
    st = read_line(self, s, ++line, c, err);
    s = end;
  }
  if (c) freelocale(c);
  if (st == TN_OK && !self->n[LONG]) st = fail(err, TN_E_ARG, "%.300s: there is no line 'long = ...'", self->path);
  return st;
}

static tn_status read_file(tn_inst *self, tn_err *err)
{
  FILE *f = fopen(self->path, "rb");
  if (!f) return fail(err, TN_E_IO, "factors: %.300s cannot be opened", self->path);
  const tn_host *host = self->host;
  char *text = host->alloc(host->ctx, MAX_FILE + 1, 8);
  size_t n = text ? fread(text, 1, MAX_FILE + 1, f) : 0;
  tn_status st = text ? TN_OK : TN_E_NOMEM;
  if (text && ferror(f)) st = fail(err, TN_E_IO, "factors: %.300s cannot be read", self->path);
  if (n > MAX_FILE) st = fail(err, TN_E_ARG, "factors: %.300s is longer than %d bytes", self->path, (int)MAX_FILE);
  if (st == TN_OK) {
    text[n] = '\0';
    st = read_text(self, text, err);
  }
  host->free_(host->ctx, text);
  fclose(f);
  return st;
}

/* ---------------------------------------------------------------- the embedding */

static double choose(double option, double file, double otherwise)
{
  return option > 0 ? option : file > 0 ? file : otherwise;
}

static double mscale(const tn_inst *self, const tn_rope_query *q)
{
  double ctx = (double)(self->original_ctx > 0 ? self->original_ctx : q->n_ctx_orig);
  double s = choose(self->factor, q->factor, (double)q->n_ctx_train / ctx);
  return choose(self->attn_factor, q->attn_factor, s > 1 && ctx > 1 ? sqrt(1 + log(s) / log(ctx)) : 1);
}

/* Are there lists of the right length for this class? */
static tn_status check_lists(const tn_inst *self, const tn_rope_query *q, tn_err *err)
{
  for (uint32_t i = 0; i < 2; i++)
    if (self->n[i] && self->n[i] != q->dims / 2)
      return fail(err, TN_E_ARG, "%.300s: %s has %u numbers, the model turns %u pairs", self->path, list_names[i],
                  self->n[i], q->dims / 2);
  if (self->n[LONG] || (q->factors_long && q->factors_long != q->factors_short)) return TN_OK;
  return fail(err, TN_E_UNSUPPORTED,
              "there are no factors: the model file has no tensors rope_factors_short and rope_factors_long; set "
              "position.longrope.factors, or take another position plugin");
}

static tn_status table(tn_inst *self, const tn_rope_query *q, tn_rope_spec *out, tn_err *err)
{
  bool plain = self->shape && q->cls < self->shape->n_classes && self->shape->class_window[q->cls] > 0;
  tn_status st = plain ? TN_OK : check_lists(self, q, err);
  if (st != TN_OK) return st;
  uint32_t list = q->regime == 1 ? LONG : SHORT;
  const float *file = list == LONG ? q->factors_long : q->factors_short;
  for (uint32_t i = 0; i < q->dims / 2; i++) {
    double lambda = self->n[list] ? self->list[list][i] : file && !self->n[LONG] ? (double)file[i] : 1;
    out->inv_freq[i] = pow(q->base, -2.0 * i / q->dims) / (plain ? 1 : lambda);
  }
  out->mscale = plain ? 1 : mscale(self, q);
  self->host->count(self->host->ctx, 0, 1);
  return TN_OK;
}

static int64_t regime(tn_inst *self, int64_t n_prompt, int64_t max_len)
{
  (void)n_prompt;
  if (self->regime != AUTO) return self->regime == LONG_TEXT;
  return self->ctx > 0 && max_len > self->ctx;
}

/* ---------------------------------------------------------------- instance */

/* L0: the option, what the model file says, or the context it was trained on. */
static int64_t original_ctx(const tn_inst *self, const tn_svc_model *model)
{
  char key[128];
  double x;
  if (self->original_ctx > 0 || !model) return self->original_ctx;
  snprintf(key, sizeof key, "%.60s.rope.scaling.original_context_length", model->shape->arch);
  bool said = model->meta_f64(self->host->ctx, key, &x) == TN_OK && x >= 1 && x < 1e15;
  return said ? (int64_t)x : model->shape->n_ctx_train;
}

static void destroy(tn_inst *self) { self->host->free_(self->host->ctx, self); }

static tn_status create(const tn_host *host, const tn_value *values, tn_inst **out, tn_err *err)
{
  const tn_svc_model *model = host->service(host->ctx, "tenon.model/1");
  tn_inst *self = host->alloc(host->ctx, sizeof *self, 8);
  *out = NULL;
  if (!self) return TN_E_NOMEM;
  memset(self, 0, sizeof *self);
  self->host = host;
  self->path = values[P_FACTORS].v.s;
  self->regime = values[P_REGIME].v.i;
  self->factor = values[P_FACTOR].v.f;
  self->original_ctx = values[P_CTX].v.i;
  self->attn_factor = values[P_ATTN].v.f;
  self->shape = model ? model->shape : NULL;
  self->ctx = original_ctx(self, model);
  tn_status st = *self->path ? read_file(self, err) : TN_OK;
  if (st != TN_OK) {
    destroy(self);
    return st;
  }
  *out = self;
  return TN_OK;
}

#define LONGROPE_F64(name_, key_, help_, max_)                    \
  static const tn_param name_ = {.struct_size = sizeof(tn_param), \
                                 .type = TN_T_F64,                \
                                 .flags = TN_P_OUTPUT,            \
                                 .key = key_,                     \
                                 .help = help_,                   \
                                 .def = "0",                      \
                                 .fmin = 0,                       \
                                 .fmax = max_}
static const char *const regimes[] = {"auto", "short", "long"};
static const tn_param p_factors = {.struct_size = sizeof p_factors,
                                   .type = TN_T_PATH,
                                   .flags = TN_P_OUTPUT,
                                   .key = "factors",
                                   .help = "file with the lists long and short; empty: the model's own tensors",
                                   .def = ""};
static const tn_param p_regime = {.struct_size = sizeof p_regime,
                                  .type = TN_T_ENUM,
                                  .flags = TN_P_OUTPUT,
                                  .n_choices = 3,
                                  .choices = regimes,
                                  .key = "regime",
                                  .help = "which list turns a sequence; auto: by the length it may reach",
                                  .def = "auto"};
LONGROPE_F64(p_factor, "factor", "context stretch; 0: the model file's, or its context over the original one", 1024);
LONGROPE_F64(p_attn, "attn_factor", "factor of cos and sin; 0: the file's, or sqrt(1 + ln factor / ln original_ctx)",
             100);
static const tn_param p_ctx = {.struct_size = sizeof p_ctx,
                               .type = TN_T_I64,
                               .flags = TN_P_OUTPUT,
                               .key = "original_ctx",
                               .help = "longest text that the short list turns; 0: the file's",
                               .unit = "tokens",
                               .def = "0",
                               .imin = 0,
                               .imax = 1 << 30};
static const tn_param *const params[] = {[P_FACTORS] = &p_factors, [P_REGIME] = &p_regime, [P_FACTOR] = &p_factor,
                                         [P_CTX] = &p_ctx,         [P_ATTN] = &p_attn,     NULL};
static const tn_position_v1 vtable = {.struct_size = sizeof vtable, .table = table, .regime = regime};

static const char *const provides[] = {"rope.stretch/1", NULL};
static const char *const counters[] = {"tables", NULL};

static const tn_desc desc = {.struct_size = sizeof desc,
                             .slot = TN_SLOT_POSITION,
                             .slot_version = TN_SLOT_VERSION,
                             .flags = TN_F_DETERMINISTIC,
                             .id = "org.tenon.longrope",
                             .name = "longrope",
                             .version = "1.0.0",
                             .summary = "rotary positions slowed by a factor a pair (LongRoPE, Ding et al. 2024)",
                             .provides = provides,
                             .params = params,
                             .counters = counters,
                             .create = create,
                             .destroy = destroy,
                             .vtable = &vtable};

TN_PLUGIN(longrope, "org.tenon.longrope", TN_SLOT_POSITION, "1.0.0", "Tenon", "Apache-2.0", desc);
