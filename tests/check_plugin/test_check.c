/* The checker finds each fault by the test that is meant for it, and nothing else; a sound plugin passes every test. */
#include "check/check.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "loader/note.h"

#define MAX_FINDINGS 8
#define MAX_TESTS 128

typedef struct finding {
  const char *id;
  uint32_t verdict;
  const char *text; /* a part of what the test says */
} finding;

typedef struct expected {
  const char *plugin; /* tests/plugins/broken/<plugin>.c */
  finding findings[MAX_FINDINGS];
} expected;

static const expected table[] = {
#include "check_plugin/verdicts.def"
};

typedef struct seen {
  size_t n;
  struct {
    const tn_check_test *test;
    uint32_t verdict;
    char text[512];
  } at[MAX_TESTS];
} seen;

static void collect(void *ctx, const tn_check_result *r)
{
  seen *s = ctx;
  cr_assert(s->n < MAX_TESTS);
  s->at[s->n].test = r->test;
  s->at[s->n].verdict = r->verdict;
  snprintf(s->at[s->n++].text, sizeof s->at[0].text, "%s", r->text);
}

/* Sanitizers bring libraries, constructors and data of their own: only what breaks the contract counts then. */
static uint32_t least(void)
{
  const char *instrumented = getenv("TN_INSTRUMENTED");
  return instrumented && *instrumented == '1' ? TN_CHECK_FAIL : TN_CHECK_WARN;
}

static bool check_path(const char *path, uint32_t level, uint32_t timeout_ms, seen *out)
{
  const tn_check_cfg cfg = {.path = path, .level = level, .timeout_ms = timeout_ms};
  uint32_t counts[6], sum = 0;
  bool ok;
  tn_err err = tn_err_init();
  out->n = 0;
  cr_assert(tn_check_run(&cfg, collect, out, counts, &ok, &err) == TN_OK, "%s", err.msg);
  for (int i = 0; i < 6; i++) sum += counts[i];
  cr_expect(eq(sz, sum, out->n));
  return ok;
}

static const char *plugin(const char *name)
{
  static char path[1024];
  snprintf(path, sizeof path, "%s/tests/plugins/broken/%s.so", TN_BUILD_DIR, name);
  return path;
}

/* The finding of a test in a row of the table, NULL: none. */
static const finding *find(const expected *e, const char *id)
{
  for (size_t i = 0; i < MAX_FINDINGS && e->findings[i].id; i++)
    if (strcmp(e->findings[i].id, id) == 0) return &e->findings[i];
  return NULL;
}

static void compare(const expected *e, const seen *s)
{
  size_t wanted = 0, found = 0;
  for (size_t i = 0; i < MAX_FINDINGS && e->findings[i].id; i++) wanted += e->findings[i].verdict >= least();
  for (size_t i = 0; i < s->n; i++) {
    if (s->at[i].verdict < least()) continue;
    const finding *f = find(e, s->at[i].test->id);
    const char *verdict = tn_check_verdict_name(s->at[i].verdict);
    cr_expect(f != NULL, "%s: %s says %s: %s", e->plugin, s->at[i].test->id, verdict, s->at[i].text);
    if (!f) continue;
    found++;
    cr_expect(eq(u32, s->at[i].verdict, f->verdict), "%s: %s: %s", e->plugin, f->id, s->at[i].text);
    cr_expect(strstr(s->at[i].text, f->text) != NULL, "%s: %s says \"%s\"", e->plugin, f->id, s->at[i].text);
  }
  cr_expect(eq(sz, found, wanted), "%s", e->plugin);
}

/* In four parts, which run side by side. */
ParameterizedTestParameters(check, each_broken_plugin_fails_its_own_test)
{
  static size_t parts[] = {0, 1, 2, 3};
  return cr_make_param_array(size_t, parts, TN_ARRAY_LEN(parts));
}

ParameterizedTest(size_t *part, check, each_broken_plugin_fails_its_own_test, .timeout = 110)
{
  for (size_t i = *part; i < TN_ARRAY_LEN(table); i += 4) {
    static seen s;
    uint32_t worst = 0;
    bool ok = check_path(plugin(table[i].plugin), TN_CHECK_MAX_LEVEL, least() == TN_CHECK_FAIL ? 8000 : 1500, &s);
    compare(&table[i], &s);
    for (size_t k = 0; k < s.n; k++) worst = s.at[k].verdict > worst ? s.at[k].verdict : worst;
    cr_expect(eq(int, ok, worst < TN_CHECK_FAIL), "%s", table[i].plugin);
  }
}

Test(check, a_sound_plugin_passes_every_test)
{
  static seen s;
  cr_expect(check_path(plugin("sound"), TN_CHECK_MAX_LEVEL, 0, &s));
  for (size_t i = 0; i < s.n && least() == TN_CHECK_WARN; i++)
    cr_expect(eq(u32, s.at[i].verdict, TN_CHECK_PASS), "%s: %s", s.at[i].test->id, s.at[i].text);
  cr_expect(tn_check_test_at(s.n) == NULL && tn_check_test_at(s.n - 1) != NULL, "every test was run");
}

/* Every test has a plugin that fails it, except those that want a file which a compiler does not make. */
Test(check, every_test_is_failed_by_some_plugin)
{
  static const char *const elsewhere[] = {"TN-L0-01", "TN-L0-04", "TN-L0-05", "TN-L0-16"};
  for (size_t i = 0; tn_check_test_at(i); i++) {
    const char *id = tn_check_test_at(i)->id;
    bool failed = false;
    for (size_t k = 0; k < TN_ARRAY_LEN(table); k++) failed = failed || find(&table[k], id);
    for (size_t k = 0; k < TN_ARRAY_LEN(elsewhere); k++) failed = failed || strcmp(elsewhere[k], id) == 0;
    cr_expect(failed, "%s", id);
  }
}

Test(check, ids_are_in_order_and_say_their_level)
{
  for (size_t i = 0; tn_check_test_at(i); i++) {
    const tn_check_test *t = tn_check_test_at(i), *next = tn_check_test_at(i + 1);
    unsigned level, number;
    cr_assert(sscanf(t->id, "TN-L%u-%u", &level, &number) == 2 && strlen(t->id) == 8, "%s", t->id);
    cr_expect(eq(u32, t->level, level), "%s", t->id);
    cr_expect(t->what && *t->what && t->run, "%s", t->id);
    if (next) cr_expect(strcmp(t->id, next->id) < 0, "%s before %s", t->id, next->id);
  }
}

/* ---- files that a compiler does not make */

/* Copies `sound` to /tmp/<unique>/<name>, cut after `bytes` (-1: whole), each `from` of its bytes replaced by `to`. */
static char *made(const char *name, long bytes, const char *from, const char *to)
{
  char dir[] = "/tmp/tenon-made-XXXXXX", *path = calloc(1, 256);
  cr_assert(path && mkdtemp(dir));
  snprintf(path, 256, "%s/%s", dir, name);
  FILE *in = fopen(plugin(from ? "imports" : "sound"), "rb"), *out = fopen(path, "wb");
  static char data[1 << 20];
  cr_assert(in && out);
  size_t n = fread(data, 1, sizeof data, in), k = from ? strlen(from) : 0;
  for (size_t i = 0; from && i + k <= n; i++)
    if (memcmp(data + i, from, k) == 0) memcpy(data + i, to, k);
  if (bytes >= 0 && (size_t)bytes < n) n = (size_t)bytes;
  cr_assert(fwrite(data, 1, n, out) == n);
  fclose(in);
  fclose(out);
  return path;
}

static void unmake(char *path)
{
  unlink(path);
  *strrchr(path, '/') = '\0';
  rmdir(path);
  free(path);
}

/* Verdict and text of one test on a made file. */
static uint32_t verdict_of(const seen *s, const char *id, const char **text)
{
  for (size_t i = 0; i < s->n; i++) {
    if (strcmp(s->at[i].test->id, id) != 0) continue;
    *text = s->at[i].text;
    return s->at[i].verdict;
  }
  cr_assert(false, "%s was not run", id);
  return 0;
}

Test(check, a_truncated_file)
{
  static seen s;
  const char *text;
  char *path = made("sound.so", 9000, NULL, NULL);
  cr_expect(not(check_path(path, TN_CHECK_MAX_LEVEL, 0, &s)));
  cr_expect(eq(u32, verdict_of(&s, "TN-L0-01", &text), TN_CHECK_FAIL));
  cr_expect(strstr(text, "sound.so: truncated: ") == text, "%s", text);
  cr_expect(eq(u32, verdict_of(&s, "TN-L1-01", &text), TN_CHECK_SKIP));
  cr_expect(eq(str, (char *)text, "the plugin is not loaded, see TN-L0-01"));
  unmake(path);
}

Test(check, a_file_that_is_not_named_as_a_plugin)
{
  static seen s;
  const char *text;
  char *path = made("Sound-1.so", -1, NULL, NULL);
  cr_expect(not(check_path(path, 0, 0, &s)));
  cr_expect(eq(u32, verdict_of(&s, "TN-L0-05", &text), TN_CHECK_FAIL));
  cr_expect(strstr(text, "'Sound-1' is no plugin name") == text, "%s", text);
  unmake(path);
  path = made("sound", -1, NULL, NULL);
  check_path(path, 0, 0, &s);
  cr_expect(eq(u32, verdict_of(&s, "TN-L0-05", &text), TN_CHECK_FAIL));
  cr_expect(eq(str, (char *)text, "the file is named 'sound', want <name>.so"));
  unmake(path);
}

Test(check, a_c_library_newer_than_this_machines)
{
  static seen s;
  const char *text;
  char *path = made("imports.so", -1, "GLIBC_2.", "GLIBC_9.");
  check_path(path, 0, 0, &s);
  cr_expect(eq(u32, verdict_of(&s, "TN-L0-16", &text), TN_CHECK_FAIL));
  cr_expect(strstr(text, "needs glibc 9.") == text, "%s", text);
  unmake(path);
}

Test(check, an_instruction_set_that_this_machine_lacks)
{
  static seen s;
  const char *text;
  if (tn_isa_of_host() == TN_ISA_AVX512) cr_skip_test("this machine has AVX-512");
  check_path(plugin("note_isa_avx512"), TN_CHECK_MAX_LEVEL, 0, &s);
  cr_expect(eq(u32, verdict_of(&s, "TN-L0-04", &text), TN_CHECK_SKIP));
  cr_expect(eq(u32, verdict_of(&s, "TN-L1-01", &text), TN_CHECK_SKIP));
}

/* ---- how the tests are run */

Test(check, nothing_of_a_refused_plugin_runs)
{
  static seen s;
  const tn_check_cfg cfg = {.path = plugin("abi_major"), .level = TN_CHECK_MAX_LEVEL, .in_process = 1};
  uint32_t counts[6];
  bool ok;
  s.n = 0;
  cr_assert(tn_check_run(&cfg, collect, &s, counts, &ok, NULL) == TN_OK);
  cr_expect(not(ok));
  cr_expect(getenv("TN_TEST_CONSTRUCTOR") == NULL, "its constructor ran");
  cr_expect(eq(u32, counts[TN_CHECK_CRASH] + counts[TN_CHECK_TIMEOUT], 0));
}

Test(check, levels_and_single_tests)
{
  static seen s;
  check_path(plugin("sound"), 0, 0, &s);
  for (size_t i = 0; i < s.n; i++) cr_expect(eq(u32, s.at[i].test->level, 0));
  tn_check_cfg cfg = {.path = plugin("replaced"), .only = "TN-L1-03"};
  uint32_t counts[6];
  bool ok = true;
  tn_err err = tn_err_init();
  s.n = 0;
  cr_assert(tn_check_run(&cfg, collect, &s, counts, &ok, &err) == TN_OK);
  cr_expect(eq(sz, s.n, 1));
  cr_expect(eq(str, (char *)s.at[0].test->id, "TN-L1-03"));
  cr_expect(eq(u32, counts[TN_CHECK_FAIL], 1));
  cr_expect(not(ok));
  cfg = (tn_check_cfg){.path = plugin("abi_major"), .only = "TN-L1-03"};
  s.n = 0;
  cr_assert(tn_check_run(&cfg, collect, &s, counts, &ok, &err) == TN_OK);
  cr_assert(eq(sz, s.n, 1));
  cr_expect(eq(str, s.at[0].text, "the plugin is not loaded, see TN-L0-03"));
}

Test(check, what_cannot_be_run_is_an_error)
{
  uint32_t counts[6];
  bool ok = true;
  tn_err err = tn_err_init();
  const tn_check_cfg unknown = {.path = plugin("sound"), .only = "TN-L9-99"};
  cr_expect(tn_check_run(&unknown, collect, NULL, counts, &ok, &err) == TN_E_ARG);
  cr_expect(eq(str, err.msg, "there is no test 'TN-L9-99'"));
  const tn_check_cfg high = {.path = plugin("sound"), .level = 99};
  cr_expect(tn_check_run(&high, collect, NULL, counts, &ok, &err) == TN_E_ARG);
  cr_expect(eq(str, err.msg, "level 99: there are levels 0 to 2"));
  const tn_check_cfg none = {.path = "/nonexistent/a.so"};
  cr_expect(tn_check_run(&none, collect, NULL, counts, &ok, &err) == TN_E_IO);
  cr_expect(eq(str, err.msg, "/nonexistent/a.so: No such file or directory"));
  cr_expect(not(ok));
}
