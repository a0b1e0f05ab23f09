/* fuzz_ini: bytes as configuration files and --set arguments, read against a table with every type of option.
 *
 * The byte 0x1E ends one file and begins the next (a.ini, b.ini, ...; a.ini is loaded, the others can be included),
 * 0x1D begins an argument of --set. */
#include <stdlib.h>
#include <string.h>

#include "config/options.h"
#include "config/param.h"
#include "utf8.h"

static const char *const choices[] = {"one", "two"};
#define ROW(key_, type_, def_, ...)                                                                    \
  {                                                                                                    \
    .struct_size = sizeof(tn_param), .type = type_, .key = key_, .def = def_, .help = "x", __VA_ARGS__ \
  }
static const tn_param rows[] = {
    ROW("b", TN_T_BOOL, "no", .flags = 0),
    ROW("i", TN_T_I64, "1", .imin = -5, .imax = INT64_MAX),
    ROW("f", TN_T_F64, "0.5", .fmin = -1e300, .fmax = 1e300),
    ROW("s", TN_T_STR, "", .flags = 0),
    ROW("e", TN_T_ENUM, "one", .choices = choices, .n_choices = 2),
    ROW("y", TN_T_BYTES, "1K", .imax = INT64_MAX),
    ROW("p", TN_T_PATH, "", .flags = 0),
    ROW("l", TN_T_F64_LIST, "1, 2", .fmin = -10, .fmax = 10),
};
static const tn_param *const table[] = {&rows[0], &rows[1], &rows[2], &rows[3], &rows[4],
                                        &rows[5], &rows[6], &rows[7], NULL};

typedef struct input {
  const char *p;
  size_t n;
} input;

/* The k-th stretch of the input that begins behind `mark` (k 0: the beginning of the input), up to the next mark. */
static bool part(const input *in, char mark, size_t k, tn_str *out)
{
  const char *p = in->p, *end = in->p + in->n;
  if (mark == '\x1E' && k-- == 0) goto found;
  for (; p < end; p++)
    if (*p == mark && k-- == 0) break;
  if (p == end) return false;
  p++;
found:
  out->p = p;
  while (p < end && *p != '\x1E' && *p != '\x1D') p++;
  out->n = (size_t)(p - out->p);
  return true;
}

static tn_status read_file(void *ctx, const char *path, char **id, char **bytes, size_t *n, tn_err *err)
{
  tn_str s;
  bool known = strlen(path) == 5 && !strcmp(path + 1, ".ini") && path[0] >= 'a' && path[0] <= 'z';
  if (!known || !part(ctx, '\x1E', (size_t)(path[0] - 'a'), &s)) return tn_fail(err, TN_E_IO, "%s: not there", path);
  *id = tn_strdup(path);
  *bytes = tn_strndup(s.p, s.n);
  *n = s.n;
  return TN_OK;
}

/* Every value that was accepted reads back from its text. */
static void check(const tn_options *o)
{
  for (uint32_t i = 0; i < o->n; i++) {
    char *text = tn_param_render(o->params[i], &o->values[i]);
    tn_value again;
    tn_err err = tn_err_init();
    if (!text || tn_param_parse(o->params[i], text, NULL, &again, &err) != TN_OK) abort();
    bool same = again.len == o->values[i].len;
    if (o->params[i]->type == TN_T_I64 || o->params[i]->type == TN_T_BYTES) same = again.v.i == o->values[i].v.i;
    if (o->params[i]->type == TN_T_F64) same = again.v.f == o->values[i].v.f;
    if (!same) abort();
    tn_value_free(&again);
    free(text);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  input in = {(const char *)data, size};
  tn_config_fs fs = {&in, read_file};
  tn_config *c = tn_config_new(&fs, "conf");
  tn_err err = tn_err_init();
  tn_status st = tn_config_load(c, "a.ini", &err);
  tn_str s;
  for (size_t k = 0; st == TN_OK && part(&in, '\x1D', k, &s); k++) {
    char *assignment = tn_strndup(s.p, s.n);
    st = tn_config_set(c, assignment, &err);
    free(assignment);
  }
  tn_options o;
  tn_options_want want = {"quantizer.x", "quantizer.x@kv", table, true};
  if (st == TN_OK && tn_options_read(c, &want, &o, &err) == TN_OK) {
    check(&o);
    tn_options_free(&o);
  } else if (!err.msg[0] || tn_utf8_valid(err.msg, strlen(err.msg)) < strlen(err.msg)) {
    abort(); /* a refusal is a sentence */
  }
  tn_config_free(c);
  return 0;
}
