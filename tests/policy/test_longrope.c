/* LongRoPE: factors from a file and from the model, the attention factor, the choice of the list, and files that are none. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/plugin_rig.h"

enum { PAIRS = 32 };

static char set_factors[64]; /* "factors=/tmp/..."; each test is a process of its own */

/* A factor file of that text. */
static const char *file(const char *fmt, ...)
{
  va_list ap;
  strcpy(set_factors, "factors=/tmp/tenon-longrope-XXXXXX");
  int fd = mkstemp(set_factors + strlen("factors="));
  FILE *f = fd >= 0 ? fdopen(fd, "w") : NULL;
  cr_assert(f != NULL);
  va_start(ap, fmt);
  cr_assert(vfprintf(f, fmt, ap) >= 0 && fclose(f) == 0);
  va_end(ap);
  return set_factors;
}

static char *numbers(const float *x, int n)
{
  static char text[2][1024];
  static int turn;
  char *out = text[turn++ % 2];
  size_t at = 0;
  for (int i = 0; i < n; i++)
    at += (size_t)snprintf(out + at, sizeof text[0] - at, "%s%.9g", i ? ", " : "", (double)x[i]);
  return out;
}

static tn_rope_query query(void)
{
  return (tn_rope_query){.struct_size = sizeof(tn_rope_query),
                         .dims = 2 * PAIRS,
                         .base = 1e4,
                         .n_ctx_train = 131072,
                         .n_ctx_orig = 4096,
                         .scaling = "longrope"};
}

typedef struct answer {
  double f[PAIRS], mscale;
  tn_status st;
  tn_err err;
} answer;

static answer ask(const tn_rope_query *q, const char *a, const char *b)
{
  answer out = {.err = tn_err_init()};
  plugin_rig *p = plugin_rig_open(TN_SLOT_POSITION, "longrope", (const char *[]){a ? a : b, a ? b : NULL, NULL});
  const tn_position_v1 *v = p->vtable;
  tn_rope_spec spec = {.struct_size = sizeof spec, .inv_freq = out.f};
  out.st = v->table(p->inst, q, &spec, &out.err);
  out.mscale = spec.mscale;
  plugin_rig_close(p);
  return out;
}

static float shorts[PAIRS], longs[PAIRS];

static void fill_lists(void)
{
  for (int i = 0; i < PAIRS; i++) shorts[i] = 1 + 0.01f * (float)i, longs[i] = 1 + 0.5f * (float)i;
}

static const char *both(void)
{
  fill_lists();
  return file("# searched\nshort = %s ; as trained\r\n\n  long=%s\n", numbers(shorts, PAIRS), numbers(longs, PAIRS));
}

static void check_lambda(const answer *a, const float *lambda)
{
  cr_assert(a->st == TN_OK, "%s", a->err.msg);
  for (int i = 0; i < PAIRS; i++) {
    double want = 1 / ((lambda ? (double)lambda[i] : 1) * pow(1e4, i / (double)PAIRS));
    cr_assert(fabs(a->f[i] / want - 1) < 1e-8, "pair %d: %.17g, want %.17g", i, a->f[i], want);
  }
}

Test(policy_longrope, lists_of_a_file)
{
  const char *set = both();
  tn_rope_query q = query();
  answer a = ask(&q, set, NULL);
  check_lambda(&a, shorts);
  q.regime = 1;
  a = ask(&q, set, NULL);
  check_lambda(&a, longs);
  cr_expect(fabs(a.mscale - 1.1902380714) < 1e-10, "the attention factor is %.12g", a.mscale);
  unlink(set + 8);
  set = file("long = %s\n", numbers(longs, PAIRS));
  q.regime = 0;
  q.factors_short = shorts;
  a = ask(&q, set, NULL);
  check_lambda(&a, NULL);
  unlink(set + 8);
}

Test(policy_longrope, lists_of_the_model)
{
  fill_lists();
  tn_rope_query q = query();
  q.factors_short = shorts, q.factors_long = longs;
  answer a = ask(&q, NULL, NULL);
  check_lambda(&a, shorts);
  q.regime = 1;
  a = ask(&q, NULL, NULL);
  check_lambda(&a, longs);
  q.factors_long = shorts; /* one list for both: the model has some other scheme */
  a = ask(&q, NULL, NULL);
  cr_expect(a.st == TN_E_UNSUPPORTED && strstr(a.err.msg, "no tensors rope_factors_short"), "%s", a.err.msg);
  q.factors_short = q.factors_long = NULL;
  cr_expect(ask(&q, NULL, NULL).st == TN_E_UNSUPPORTED);
}

/* Factors of 1 are plain rotation, factors of s linear scaling, bitwise. */
Test(policy_longrope, known_lists)
{
  static const float s[] = {1, 4};
  for (size_t k = 0; k < TN_ARRAY_LEN(s); k++) {
    for (int i = 0; i < PAIRS; i++) longs[i] = s[k];
    tn_rope_query q = query();
    q.regime = 1;
    const char *set = file("long = %s", numbers(longs, PAIRS));
    answer a = ask(&q, set, "attn_factor=1");
    plugin_rig *p = plugin_rig_open(TN_SLOT_POSITION, k ? "linear_scaling" : "rope", NULL);
    double want[PAIRS];
    tn_rope_spec spec = {.struct_size = sizeof spec, .inv_freq = want};
    q.factor = 4;
    const tn_position_v1 *v = p->vtable;
    cr_assert(v->table(p->inst, &q, &spec, NULL) == TN_OK);
    cr_expect(memcmp(a.f, want, sizeof want) == 0 && a.mscale == 1);
    plugin_rig_close(p);
    unlink(set + 8);
  }
}

/* transformers 5.24.0, ROPE_INIT_FUNCTIONS["longrope"]: lists as fill_lists(), 4096 and 4097 tokens. */
Test(policy_longrope, as_transformers_has_it)
{
  static const int at[6] = {0, 1, 8, 16, 30, 31};
  static const double want[2][6] = {{1, 0.74246949, 0.0925925896, 0.00862068962, 0.000136790739, 0.000101795536},
                                    {1, 0.499929428, 0.0199999996, 0.00111111114, 1.11142463e-05, 8.08194818e-06}};
  const char *set = both();
  for (int64_t regime = 0; regime < 2; regime++) {
    tn_rope_query q = query();
    q.regime = regime;
    answer a = ask(&q, set, NULL);
    for (int i = 0; i < 6; i++) cr_expect(fabs(a.f[at[i]] / want[regime][i] - 1) < 1e-6, "pair %d", at[i]);
    cr_expect(fabs(a.mscale - 1.19023807) < 1e-8);
  }
  unlink(set + 8);
}

/* Option, then the file's word, then the formula; nothing where nothing is stretched. */
Test(policy_longrope, attention_factor)
{
  const char *set = both();
  tn_rope_query q = query();
  cr_expect(fabs(ask(&q, set, "factor=4").mscale - sqrt(1 + log(4) / log(4096))) < 1e-14);
  cr_expect(fabs(ask(&q, set, "original_ctx=2048").mscale - sqrt(1 + log(64) / log(2048))) < 1e-14);
  q.attn_factor = 1.5;
  cr_expect(ask(&q, set, NULL).mscale == 1.5);
  cr_expect(ask(&q, set, "attn_factor=1.25").mscale == 1.25);
  q.attn_factor = 0;
  q.n_ctx_train = 4096;
  cr_expect(ask(&q, set, NULL).mscale == 1);
  unlink(set + 8);
}

Test(policy_longrope, regime)
{
  static const struct {
    const char *a, *b;
    int64_t at_limit, beyond;
  } of[] = {{"original_ctx=4096", NULL, 0, 1},
            {"original_ctx=4096", "regime=short", 0, 0},
            {"original_ctx=4096", "regime=long", 1, 1}};
  for (size_t i = 0; i < TN_ARRAY_LEN(of); i++) {
    plugin_rig *p = plugin_rig_open(TN_SLOT_POSITION, "longrope", (const char *[]){of[i].a, of[i].b, NULL});
    const tn_position_v1 *v = p->vtable;
    cr_expect(eq(i64, v->regime(p->inst, 1, 4096), of[i].at_limit));
    cr_expect(eq(i64, v->regime(p->inst, 1, 4097), of[i].beyond));
    plugin_rig_close(p);
  }
}

/* ---------------------------------------------------------------- files that are none */

static void refused(const char *set, const char *says)
{
  tn_loader *loader;
  const tn_plugin *plugin;
  tn_err err = tn_err_init();
  tn_loader_cfg cfg = {.path = TN_BUILD_DIR "/tests/plugins", .lib_dir = TN_BUILD_DIR "/lib/tenon"};
  cr_assert(tn_loader_new(&cfg, &loader, &err) == TN_OK);
  cr_assert(tn_loader_open(loader, TN_SLOT_POSITION, "longrope", NULL, &plugin, &err) == TN_OK);
  tn_value v[5] = {{.type = TN_T_PATH, .v.s = set + 8},
                   {.type = TN_T_ENUM},
                   {.type = TN_T_F64},
                   {.type = TN_T_I64},
                   {.type = TN_T_F64}};
  cr_assert(strcmp(plugin->desc->params[0]->key, "factors") == 0 &&
            strcmp(plugin->desc->params[1]->choices[0], "auto") == 0);
  tn_services none = {0};
  tn_instance in;
  cr_expect(tn_instance_new(plugin->desc, v, &none, &in, &err) != TN_OK);
  cr_expect(strstr(err.msg, "position/longrope: create: ") && strstr(err.msg, says), "%s, want '%s'", err.msg, says);
  unlink(set + 8);
  tn_loader_free(loader);
}

Test(policy_longrope, files_that_are_none)
{
  refused("factors=/nowhere/f.txt", "factors: /nowhere/f.txt cannot be opened");
  refused(file("%s", ""), "there is no line 'long = ...'");
  refused(file("short = 1, 2\n"), "there is no line 'long = ...'");
  refused(file("# a\nlong = 1, x\n"), ":2: number 2 of long is 'x', want a positive number");
  refused(file("long = 1, -2"), "number 2 of long is '-2'");
  refused(file("long = inf"), "number 1 of long is 'inf'");
  refused(file("long = 1\nlong = 1"), ":2: long a second time");
  refused(file("long =  # 3"), ":1: long has no numbers");
  refused(file("lung = 1"), ":1: 'lung = 1' is neither 'long = ...' nor 'short = ...'");
  refused(file("long = %0*d", 70000, 1), "is longer than 65536 bytes");
}

Test(policy_longrope, a_file_for_another_model)
{
  fill_lists();
  const char *set = file("long = %s", numbers(longs, PAIRS - 2));
  tn_rope_query q = query();
  answer a = ask(&q, set, NULL);
  cr_expect(a.st == TN_E_ARG && strstr(a.err.msg, "long has 30 numbers, the model turns 32 pairs"), "%s", a.err.msg);
  unlink(set + 8);
}
