/* The ABI note is still there after garbage collection of sections and after strip, with every linker that is there. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <string.h>

#include "abi/shell.h"
#include "loader/loader_int.h"

static void expect_note(const char *file, const char *how)
{
  tn_inspected in;
  tn_err err = tn_err_init();
  cr_expect(tn_file_inspect(file, TN_ISA_BASE, &in, &err) == TN_OK, "%s: %s", how, err.msg);
  if (err.code) return;
  cr_expect(eq(sz, in.notes.n, 1), "%s", how);
  cr_expect(eq(str, in.notes.at[0].id, "org.example.recency"), "%s", how);
}

Test(note_survives, every_compiler_and_linker)
{
  static const char *const compilers[] = {"gcc", "clang"};
  static const char *const linkers[] = {"bfd", "gold", "lld"};
  char *dir = shell_mkdir(), out[4096], file[512], how[64];
  int tried = 0;
  cr_assert(shell(out, sizeof out, "mkdir -p '%s/tenon' && cp '%s/include/plugin_api.h' '%s/tenon'", dir, TN_SOURCE_DIR,
                  dir) == 0);
  for (size_t c = 0; c < TN_ARRAY_LEN(compilers); c++)
    for (size_t l = 0; l < TN_ARRAY_LEN(linkers); l++) {
      snprintf(how, sizeof how, "%s with %s", compilers[c], linkers[l]);
      snprintf(file, sizeof file, "%s/%s-%s.so", dir, compilers[c], linkers[l]);
      char linker[32];
      snprintf(linker, sizeof linker, "ld.%s", linkers[l]);
      if (!shell_has(compilers[c]) || !shell_has(linker)) continue;
      tried++;
      int rc = shell(out, sizeof out,
                     "%s -std=c11 -O2 -fPIC -fvisibility=hidden -ffunction-sections -fdata-sections -I '%s' -shared "
                     "-fuse-ld=%s -Wl,--gc-sections -Wl,--version-script='%s/contrib/template/plugin.map' "
                     "'%s/contrib/template/recency.c' -o '%s'",
                     compilers[c], dir, linkers[l], TN_SOURCE_DIR, TN_SOURCE_DIR, file);
      cr_assert(eq(int, rc, 0), "%s: %s", how, out);
      expect_note(file, how);
      cr_assert(shell(out, sizeof out, "strip -s '%s'", file) == 0, "%s", out);
      expect_note(file, how);
    }
  cr_expect(gt(int, tried, 0));
  shell_rmdir(dir);
}

/* Two descriptors of one file leave two notes behind each other, without a gap. */
Test(note_survives, several_notes_of_one_file)
{
  tn_inspected in;
  tn_err err = tn_err_init();
  cr_assert(tn_file_inspect(TN_BUILD_DIR "/tests/plugins/broken/two_slots.so", TN_ISA_BASE, &in, &err) == TN_OK, "%s",
            err.msg);
  cr_expect(eq(sz, in.notes.n, 2));
  cr_expect(in.notes.at[0].slot != in.notes.at[1].slot);
}
