/* `tenon plugins` as a user meets it: what is printed where, and the exit status. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define BROKEN TN_BUILD_DIR "/tests/plugins/broken"

static char out[1 << 17];

/* `tenon plugins <args>`, both streams into out. Returns the exit status. */
static int plugins(const char *args)
{
  char cmd[4096];
  snprintf(cmd, sizeof cmd, "'%s/bin/tenon' plugins %s 2>&1", TN_BUILD_DIR, args);
  FILE *f = popen(cmd, "r");
  cr_assert(f != NULL);
  out[fread(out, 1, sizeof out - 1, f)] = '\0';
  int status = pclose(f);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void setup(void)
{
  if (access(TN_BUILD_DIR "/bin/tenon", X_OK) != 0) cr_skip_test("the command is not built");
  unsetenv("TN_PATH");
  setenv("XDG_CACHE_HOME", TN_BUILD_DIR "/tests/cache", 1); /* not the user's */
}

TestSuite(plugins, .init = setup, .timeout = 60);

static json_t *parsed(void)
{
  json_error_t why;
  json_t *j = json_loads(out, 0, &why);
  cr_assert(j != NULL, "%s at line %d of: %s", why.text, why.line, out);
  return j;
}

Test(plugins, without_a_subcommand_or_with_a_wrong_one)
{
  cr_expect(eq(int, plugins(""), 2));
  cr_expect(strstr(out, "usage: tenon plugins SUBCOMMAND") == out);
  cr_expect(eq(int, plugins("lits"), 2));
  cr_expect(eq(str, out, "tenon plugins: there is no subcommand 'lits'; did you mean 'list'?\n"));
  cr_expect(eq(int, plugins("--help"), 0));
  cr_expect(eq(int, plugins("list --slto draft"), 2));
  cr_expect(strstr(out, "unknown option --slto; did you mean --slot?") != NULL, "%s", out);
}

Test(plugins, list_shows_what_the_build_has)
{
  cr_expect(eq(int, plugins("list"), 0));
  cr_expect(strstr(out, "org.tenon.ref") != NULL && strstr(out, "refused") == NULL, "%s", out);
  cr_expect(eq(int, plugins("list --slot position"), 0));
  cr_expect(strncmp(out, "position ", 9) == 0 && strstr(out, "eviction") == NULL, "%s", out);
  cr_expect(eq(int, plugins("list --slot positoin"), 2));
  cr_expect(strstr(out, "there is no slot 'positoin'; did you mean position") != NULL, "%s", out);
  cr_expect(eq(int, plugins("list --long --json"), 0));
  json_t *j = parsed();
  cr_expect(gt(sz, json_array_size(j), 8));
  for (size_t i = 0; i < json_array_size(j); i++) {
    json_t *p = json_array_get(j, i);
    cr_expect(json_object_get(p, "problem") == json_null());
    cr_expect(json_string_length(json_object_get(p, "summary")) > 0);
    cr_expect(json_string_value(json_object_get(p, "path"))[0] == '/');
  }
  json_decref(j);
}

Test(plugins, list_names_what_is_refused_and_what_is_hidden)
{
  char dir[] = "/tmp/tenon-cli-XXXXXX", cmd[2048];
  cr_assert(mkdtemp(dir) != NULL);
  snprintf(cmd, sizeof cmd,
           "cd %s && mkdir -p a/eviction b/eviction && ln -s '%s/sound.so' a/eviction && "
           "ln -s '%s/sound.so' '%s/abi_minor.so' b/eviction",
           dir, BROKEN, BROKEN, BROKEN);
  cr_assert(system(cmd) == 0);
  snprintf(cmd, sizeof cmd, "%s/a:%s/b:relative", dir, dir);
  setenv("TN_PATH", cmd, 1);
  cr_expect(eq(int, plugins("list --slot eviction"), 0));
  cr_expect(strstr(out, "TN_PATH entry 'relative' is not an absolute path and is not searched") != NULL, "%s", out);
  snprintf(cmd, sizeof cmd, "abi_minor            refused: %s/b/eviction/abi_minor.so: built for plugin ABI 0.999",
           dir);
  cr_expect(strstr(out, cmd) != NULL, "%s", out);
  snprintf(cmd, sizeof cmd, "sound                hidden by an earlier folder: %s/b/eviction/sound.so", dir);
  cr_expect(strstr(out, cmd) != NULL, "%s", out);
  cr_expect(eq(int, plugins("list --dirs"), 0));
  snprintf(cmd, sizeof cmd, "TN_PATH        %s/a\n", dir);
  cr_expect(strstr(out, cmd) != NULL, "%s", out);
  cr_expect(eq(int, plugins("info sound"), 0));
  cr_expect(strstr(out, "sound 1.0.0, eviction: test plugin\n") != NULL, "%s", out);
  cr_expect(eq(int, plugins("info abi_minor"), 1));
  cr_expect(strstr(out, "built for plugin ABI 0.999") != NULL, "%s", out);
  snprintf(cmd, sizeof cmd, "rm -rf %s", dir);
  cr_assert(system(cmd) == 0);
}

Test(plugins, info_shows_options_tokens_and_counters)
{
  static const char *const lines[] = {
      "paged 1.0.0, memory: ",
      "\n  id           org.tenon.paged\n",
      "kv.pages/1",
      "counters     pages_taken\n",
      "functions    configure admit take give end free_pages page_tokens; without quota\n",
      "    page_tokens      tokens of one page\n                     one of 16, 32, 64; default 16\n",
      "\n  use          [compose] memory = paged\n  claims       exact (the tokens of the baseline: "};
  cr_expect(eq(int, plugins("info paged"), 0));
  for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
    cr_expect(strstr(out, lines[i]) != NULL, "%s is not in: %s", lines[i], out);
  cr_expect(eq(int, plugins("info int8"), 0));
  cr_expect(strstr(out, "use          [compose] weights, kv or demote = int8\n  claims       may change tokens; ") !=
                NULL,
            "%s", out);
  cr_expect(strstr(out, "\n               kv.layouts/1: cached keys and values in other layouts\n") != NULL, "%s", out);
  cr_expect(strstr(out, "true or false; default false; changes tokens\n") != NULL, "%s", out);
  cr_expect(eq(int, plugins("info memory/paged --json"), 0));
  json_t *j = parsed();
  cr_expect(eq(str, (char *)json_string_value(json_object_get(j, "id")), "org.tenon.paged"));
  cr_expect(eq(sz, json_string_length(json_object_get(j, "sha256")), 64));
  json_t *first = json_array_get(json_object_get(j, "params"), 0);
  cr_expect(eq(str, (char *)json_string_value(json_object_get(first, "key")), "page_tokens"));
  cr_expect(eq(sz, json_array_size(json_object_get(first, "choices")), 3));
  json_decref(j);
  cr_expect(eq(int, plugins("info org.tenon.paged"), 0));
  cr_expect(eq(int, plugins("info pagd"), 1));
  cr_expect(eq(str, out, "tenon plugins info: there is no plugin 'pagd'; did you mean 'paged'?\n"));
  cr_expect(eq(int, plugins("info"), 2));
}

Test(plugins, check_prints_a_line_a_level_and_what_did_not_pass)
{
  cr_expect(eq(int, plugins("check " BROKEN "/sound.so"), 0));
  /* a build with sanitizers needs their libraries: a warning, printed before its level's line */
  cr_expect(strstr(out, "level 0, the file         ") != NULL && strstr(out, " PASS ") == NULL, "%s", out);
  cr_expect(strstr(out, "\nlevel 2, the descriptor   ") != NULL, "%s", out);
  cr_expect(eq(int, plugins("check " BROKEN "/hook_null.so"), 1));
  cr_expect(strstr(out, "\nTN-L2-07  FAIL ") != NULL && strstr(out, "passed, 1 failed") != NULL, "%s", out);
  cr_expect(eq(int, plugins("check -v " BROKEN "/sound.so"), 0));
  cr_expect(strstr(out, "TN-L0-01  PASS     ELF64 shared object") == out, "%s", out);
  cr_expect(strstr(out, ", 0 failed, 0 crashed, 0 ran out of time, ") != NULL, "%s", out);
  cr_expect(eq(int, plugins("check --quiet " BROKEN "/hook_null.so"), 1));
  cr_expect(strstr(out,
                   "TN-L2-07  FAIL     every function that the slot needs is there\n"
                   "                   descriptor 'org.tenon.test.hook_null': tn_eviction_v1.describe is NULL") != NULL,
            "%s", out);
  cr_expect(eq(int, plugins("check --only TN-L0-06 " BROKEN "/sound.so"), 0));
  cr_expect(strstr(out, "sound.so: 1 passed, 0 warned") != NULL, "%s", out);
  cr_expect(eq(int, plugins("check --only TN-L0-99 " BROKEN "/sound.so"), 1));
  cr_expect(eq(str, out, "tenon plugins check: there is no test 'TN-L0-99'\n"));
  cr_expect(eq(int, plugins("check --level 9 " BROKEN "/sound.so"), 2));
  cr_expect(eq(int, plugins("check"), 2));
  cr_expect(eq(int, plugins("check /nonexistent.so"), 1));
}

Test(plugins, check_json)
{
  cr_expect(eq(int, plugins("check --json " BROKEN "/crashes.so"), 1));
  json_t *j = parsed();
  cr_expect(json_object_get(j, "ok") == json_false());
  cr_expect(eq(i64, json_integer_value(json_object_get(json_object_get(j, "counts"), "crash")), 1));
  json_t *tests = json_object_get(j, "tests");
  bool seen = false;
  for (size_t i = 0; i < json_array_size(tests); i++) {
    json_t *t = json_array_get(tests, i);
    if (strcmp(json_string_value(json_object_get(t, "id")), "TN-L1-01") != 0) continue;
    seen = true;
    cr_expect(eq(str, (char *)json_string_value(json_object_get(t, "verdict")), "CRASH"));
  }
  cr_expect(seen);
  json_decref(j);
}

Test(plugins, check_describes_and_lists)
{
  cr_expect(eq(int, plugins("check --describe " BROKEN "/sound.so"), 0));
  cr_expect(strstr(out, "sound 1.0.0, eviction: test plugin\n\n") == out, "%s", out);
  cr_expect(strstr(out, "\n  id           org.tenon.test.sound\n") != NULL, "%s", out);
  cr_expect(eq(int, plugins("check --describe " BROKEN "/abi_minor.so"), 1));
  cr_expect(strstr(out, "built for plugin ABI 0.999") != NULL, "%s", out);
  cr_expect(eq(int, plugins("check --list"), 0));
  cr_expect(strncmp(out, "TN-L0-01  ", 10) == 0, "%s", out);
}

/* Every plugin of the build keeps the contract. */
Test(plugins, check_passes_every_plugin_of_the_build)
{
  cr_assert(eq(int, plugins("list --json"), 0));
  json_t *j = parsed();
  for (size_t i = 0; i < json_array_size(j); i++) {
    char args[1024];
    snprintf(args, sizeof args, "check --quiet '%s'", json_string_value(json_object_get(json_array_get(j, i), "path")));
    cr_expect(plugins(args) == 0, "%s", out);
  }
  json_decref(j);
}

Test(plugins, new_writes_a_plugin)
{
  char dir[] = "/tmp/tenon-cli-XXXXXX", args[512];
  cr_assert(mkdtemp(dir) != NULL);
  snprintf(args, sizeof args, "new draft guess --dir %s/guess", dir);
  cr_expect(eq(int, plugins(args), 0), "%s", out);
  cr_expect(strstr(out, "a plugin 'guess' of the slot draft. Next:\n  cd ") != NULL, "%s", out);
  cr_expect(strstr(out, "\n  make check TENON=" TN_BUILD_DIR "/bin/tenon PKG_CONFIG_PATH=" TN_BUILD_DIR
                        "/lib/pkgconfig\n  TN_PATH=$PWD/build/lib/tenon " TN_BUILD_DIR
                        "/bin/tenon run --conf guess.ini ") != NULL,
            "%s", out);
  cr_expect(eq(int, plugins(args), 1));
  cr_expect(strstr(out, "guess/guess.c: is there already") != NULL, "%s", out);
  snprintf(args, sizeof args, "new draft paged --dir %s/paged", dir);
  cr_expect(eq(int, plugins(args), 0));
  cr_expect(strstr(out, "warning: there is a plugin 'paged' already: ") != NULL, "%s", out);
  snprintf(args, sizeof args, "new draft other --json --dir %s/other", dir);
  cr_expect(eq(int, plugins(args), 0), "%s", out);
  json_t *j = parsed();
  cr_expect(eq(str, (char *)json_string_value(json_object_get(j, "name")), "other"));
  cr_expect(strstr(json_string_value(json_object_get(j, "dir")), "/other") != NULL);
  json_decref(j);
  cr_expect(eq(int, plugins("new drat guess"), 2));
  cr_expect(strstr(out, "there is no slot 'drat'; did you mean 'draft'?") != NULL, "%s", out);
  cr_expect(eq(int, plugins("new draft"), 2));
  snprintf(args, sizeof args, "rm -rf %s", dir);
  cr_assert(system(args) == 0);
}
