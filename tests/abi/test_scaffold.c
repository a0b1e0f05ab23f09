/* What `tenon plugins new` writes compiles without a warning with the installed header alone, and keeps the contract,
 * for each of the nine slots. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "abi/shell.h"
#include "check/check.h"
#include "cli/plugins.h"

#define FROM TN_SOURCE_DIR "/contrib/scaffold"

static void not_passed(void *ctx, const tn_check_result *r)
{
  if (r->verdict == TN_CHECK_PASS) return;
  cr_expect(r->verdict == TN_CHECK_SKIP, "%s: %s %s: %s", (const char *)ctx, r->test->id,
            tn_check_verdict_name(r->verdict), r->text);
}

static void check(const char *file)
{
  const tn_check_cfg cfg = {.path = file, .level = TN_CHECK_MAX_LEVEL};
  uint32_t counts[6];
  bool ok = false;
  tn_err err = tn_err_init();
  cr_expect(tn_check_run(&cfg, not_passed, (void *)file, counts, &ok, &err) == TN_OK, "%s", err.msg);
  cr_expect(ok);
  cr_expect(ge(u32, counts[TN_CHECK_PASS], 40));
}

/* Writes, compiles and checks a plugin of the slot in dir. */
static void one(const char *dir, uint32_t slot)
{
  static const char *const compilers[] = {"gcc", "clang"};
  char name[32], folder[512], file[600], out[4096];
  snprintf(name, sizeof name, "new_%s", tn_slot_name(slot));
  snprintf(folder, sizeof folder, "%s/%s", dir, name);
  const tn_scaffold s = {.slot = slot, .name = name, .from = FROM, .dir = folder};
  tn_err err = tn_err_init();
  cr_assert(tn_scaffold_write(&s, &err) == TN_OK, "%s", err.msg);
  for (size_t c = 0; c < TN_ARRAY_LEN(compilers); c++) {
    if (!shell_has(compilers[c])) continue;
    snprintf(file, sizeof file, "%s/%s.so", folder, name);
    int rc =
        shell(out, sizeof out,
              "cd '%s' && %s -std=c11 -O2 -fPIC -fvisibility=hidden -Wall -Wextra -Wpedantic -Wshadow -Wconversion "
              "-Werror -isystem '%s/include' -shared %s.c -o %s.so -Wl,--version-script=plugin.map -Wl,-z,defs "
              "-Wl,--as-needed -lm",
              folder, compilers[c], dir, name, name);
    cr_assert(eq(int, rc, 0), "%s: %s", compilers[c], out);
    check(file);
  }
}

Test(scaffold, every_slot_compiles_and_passes_the_checker, .timeout = 110)
{
  char *dir = shell_mkdir(), out[512];
  cr_assert(shell(out, sizeof out, "mkdir -p '%s/include/tenon' && cp '%s/include/plugin_api.h' '%s/include/tenon'",
                  dir, TN_SOURCE_DIR, dir) == 0);
  for (uint32_t slot = TN_SLOT_FIRST; slot <= TN_SLOT_LAST; slot++) one(dir, slot);
  cr_expect(shell(out, sizeof out, "grep -rlE 'my_(plugin|slot|key)' '%s' | grep -v '\\.so$'", dir) == 1,
            "a word was not filled in: %s", out);
  shell_rmdir(dir);
}

/* As the command tells its user to: make check, with the header and the command of the build tree. */
Test(scaffold, make_check_passes_for_every_slot, .timeout = 110)
{
  char out[1 << 16], *dir;
  if (shell(out, sizeof out, "test -x '%s/bin/tenon' -a -e '%s/lib/tenon/backend/cpu.so'", TN_BUILD_DIR,
            TN_BUILD_DIR) != 0)
    cr_skip_test("the command and the plugins are not built");
  if (!shell_has("pkg-config") || !shell_has("make")) cr_skip_test("there is no pkg-config or no make");
  dir = shell_mkdir();
  for (uint32_t slot = TN_SLOT_FIRST; slot <= TN_SLOT_LAST; slot++) {
    const char *word = tn_slot_name(slot);
    int rc = shell(out, sizeof out,
                   "unset TN_PATH CFLAGS && cd '%s' && '%s/bin/tenon' plugins new %s my_%s >hint && cd my_%s && "
                   "eval \"$(grep 'make check' ../hint)\" CC=\"'cc -Werror'\"",
                   dir, TN_BUILD_DIR, word, word, word);
    cr_expect(eq(int, rc, 0), "%s: %s", word, out);
    cr_expect(strstr(out, ", 0 warned, 0 failed,") != NULL, "%s: %s", word, out);
    cr_expect(strstr(out, slot == TN_SLOT_BACKEND ? "\nnot composed yet: " : "\n    set at    my_") != NULL, "%s: %s",
              word, out);
  }
  shell_rmdir(dir);
}

Test(scaffold, files_that_exist_are_not_touched)
{
  char *dir = shell_mkdir(), out[512], want[128];
  const tn_scaffold s = {.slot = TN_SLOT_QUANTIZER, .name = "mine", .from = FROM, .dir = dir};
  tn_err err = tn_err_init();
  cr_assert(shell(out, sizeof out, "echo mine > '%s/mine.ini'", dir) == 0);
  cr_expect(tn_scaffold_write(&s, &err) == TN_E_ARG);
  snprintf(want, sizeof want, "%s/mine.ini: is there already", dir);
  cr_expect(eq(str, err.msg, want));
  cr_expect(shell(out, sizeof out, "ls '%s'", dir) == 0);
  cr_expect(eq(str, out, "mine.ini\n"));
  shell_rmdir(dir);
}

Test(scaffold, the_words_are_filled_in)
{
  char *dir = shell_mkdir(), out[2048];
  const tn_scaffold s = {.slot = TN_SLOT_QUANTIZER, .name = "mine", .from = FROM, .dir = dir};
  cr_assert(tn_scaffold_write(&s, NULL) == TN_OK);
  cr_expect(shell(out, sizeof out, "cd '%s' && ls && sed -n '/compose/,$p' mine.ini && test -x check.sh", dir) == 0);
  cr_expect(eq(str, out,
               "CMakeLists.txt\nMakefile\nREADME.md\ncheck.sh\nmine.c\nmine.ini\nplugin.map\n"
               "[compose]\nweights = mine\n\n[quantizer.mine]\n"));
  shell_rmdir(dir);
}

Test(scaffold, what_cannot_be_written)
{
  tn_err err = tn_err_init();
  const tn_scaffold bad_name = {.slot = TN_SLOT_DRAFT, .name = "No-Name", .from = FROM, .dir = "/tmp"};
  cr_expect(tn_scaffold_write(&bad_name, &err) == TN_E_ARG);
  cr_expect(strstr(err.msg, "'No-Name' is no plugin name") == err.msg, "%s", err.msg);
  const tn_scaffold bad_dir = {.slot = TN_SLOT_DRAFT, .name = "mine", .from = FROM, .dir = "/nonexistent/a/b"};
  cr_expect(tn_scaffold_write(&bad_dir, &err) == TN_E_IO);
  cr_expect(eq(str, err.msg, "/nonexistent/a/b: No such file or directory"));
}
