/* The template as a stranger meets it: Tenon installed in a folder of its own, the plugin built there with the installed
 * header alone, found by search and by path, composed by its INI, and run where there is a model. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "abi/shell.h"

static char prefix[512], work[512], out[1 << 16];
static char *dir;

/* <dir>/prefix is an installation, <dir>/work a copy of the template; nothing else of Tenon is in reach. */
static void setup(void)
{
  dir = shell_mkdir();
  snprintf(prefix, sizeof prefix, "%s/prefix", dir);
  snprintf(work, sizeof work, "%s/work", dir);
  cr_assert(shell(out, sizeof out, "cmake --install '%s' --prefix '%s'", TN_BUILD_DIR, prefix) == 0, "%s", out);
  cr_assert(shell(out, sizeof out, "cp -r '%s/share/tenon/template' '%s'", prefix, work) == 0, "%s", out);
  unsetenv("TN_PATH");
  unsetenv("CFLAGS");
}

static void teardown(void) { shell_rmdir(dir); }

TestSuite(out_of_tree, .init = setup, .fini = teardown, .timeout = 600);

static void build_with_make(void)
{
  int rc = shell(out, sizeof out, "cd '%s' && make CC='cc -Werror' PKG_CONFIG_PATH='%s/lib/pkgconfig'", work, prefix);
  cr_assert(eq(int, rc, 0), "%s", out);
}

Test(out_of_tree, built_with_make_and_pkg_config_and_checked)
{
  if (!shell_has("pkg-config") || !shell_has("make")) cr_skip_test("there is no pkg-config or no make");
  build_with_make();
  int rc = shell(out, sizeof out, "cd '%s' && TENON='%s/bin/tenon' sh ./check.sh", work, prefix);
  cr_expect(eq(int, rc, 0), "%s", out);
  cr_expect(strstr(out, " 0 warned, 0 failed, 0 crashed, 0 ran out of time, 0 skipped") != NULL, "%s", out);
  cr_expect(strstr(out, "org.example.recency") != NULL, "%s", out);
}

Test(out_of_tree, built_with_cmake_and_installed)
{
  int rc = shell(out, sizeof out,
                 "cd '%s' && cmake -B build -DCMAKE_PREFIX_PATH='%s' -DCMAKE_C_FLAGS=-Werror && cmake --build build && "
                 "cmake --install build --prefix '%s'",
                 work, prefix, prefix);
  cr_assert(eq(int, rc, 0), "%s", out);
  rc = shell(out, sizeof out, "cd / && '%s/bin/tenon' plugins info recency", prefix);
  cr_expect(eq(int, rc, 0), "%s", out);
  char want[600];
  snprintf(want, sizeof want, "%s/lib/tenon/eviction/recency.so", prefix);
  cr_expect(strstr(out, want) != NULL, "not found beside the command: %s", out);
}

/* The composition names the plugin and its file. */
static void expect_composed(const char *where, const char *args)
{
  char file[700];
  snprintf(file, sizeof file, "plugin    org.example.recency 1.0.0, %s/build/lib/tenon/eviction/recency.so\n", work);
  int rc =
      shell(out, sizeof out, "cd '%s' && %s '%s/bin/tenon' compose --no-model --explain %s", dir, where, prefix, args);
  cr_expect(eq(int, rc, 0), "%s", out);
  cr_expect(strstr(out, file) != NULL, "%s", out);
}

Test(out_of_tree, found_by_search_by_path_and_not_at_all)
{
  if (!shell_has("pkg-config") || !shell_has("make")) cr_skip_test("there is no pkg-config or no make");
  build_with_make();
  char where[700], args[2048];
  snprintf(where, sizeof where, "TN_PATH='%s/build/lib/tenon'", work);
  snprintf(args, sizeof args, "'%s/recency.ini'", work);
  expect_composed(where, args);
  snprintf(args, sizeof args, "'%s/recency.ini' --set eviction.recency.path='%s/build/lib/tenon/eviction/recency.so'",
           work, work);
  expect_composed("", args);
  int rc =
      shell(out, sizeof out, "cd '%s/build/lib/tenon/eviction' && '%s/bin/tenon' compose --no-model '%s/recency.ini'",
            work, prefix, work);
  cr_expect(rc != 0, "found in the working directory: %s", out);
  cr_expect(strstr(out, "eviction plugin 'recency' not found; tried ") != NULL, "%s", out);
}

/* ---- in an engine */

#define MODEL TN_SOURCE_DIR "/tests/data/tiny/llama.gguf"

/* `tenon run` with more arguments: its JSON. */
static json_t *run(const char *args)
{
  json_error_t why;
  int rc =
      shell(out, sizeof out,
            "TN_PATH='%s/build/lib/tenon' '%s/bin/tenon' run -m '%s' -p abc -n 40 --ignore-eos --json %s 2>/dev/null",
            work, prefix, MODEL, args);
  cr_assert(eq(int, rc, 0), "%s", out);
  json_t *j = json_loads(out, 0, &why);
  cr_assert(j != NULL, "%s: %s", why.text, out);
  return j;
}

/* With the plugin and a window. */
static json_t *run_window(int window)
{
  char args[1024];
  snprintf(args, sizeof args,
           "--conf '%s/recency.ini' --set eviction.recency.pinned=1 --set eviction.recency.window=%d", work, window);
  return run(args);
}

Test(out_of_tree, takes_effect_in_an_engine)
{
  if (access(MODEL, R_OK) != 0) cr_skip_test("there is no tests/data/tiny/llama.gguf");
  if (!shell_has("pkg-config") || !shell_has("make")) cr_skip_test("there is no pkg-config or no make");
  build_with_make();
  json_t *plain = run(""), *wide = run_window(100000), *narrow = run_window(4);
  cr_expect(eq(sz, json_array_size(json_object_get(plain, "ids")), 40));
  cr_expect(json_equal(json_object_get(plain, "ids"), json_object_get(wide, "ids")) == 1,
            "a window wider than the text changed it");
  cr_expect(json_equal(json_object_get(plain, "ids"), json_object_get(narrow, "ids")) == 0,
            "a window of four tokens changed nothing");
  json_t *count = json_object_get(json_object_get(narrow, "counters"), "eviction.recency.described");
  cr_expect(gt(i64, json_integer_value(count), 0), "the plugin's counter is 0: it did nothing");
  json_decref(plain);
  json_decref(wide);
  json_decref(narrow);
}
