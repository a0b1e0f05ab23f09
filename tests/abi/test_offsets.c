/* The layout of every struct of the contract, in C and in C++, by every compiler that is there, is the committed one.
 *
 * offsets.txt is what a plugin that was compiled earlier relies on. A change of it is a change of the ABI: raise
 * TN_ABI_MINOR, then copy <build>/tests/abi/offsets.txt over tests/abi/offsets.txt. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "abi/fields.h"

#define HEADER TN_SOURCE_DIR "/include/plugin_api.h"
#define FOLDER TN_BUILD_DIR "/tests/abi"

/* Writes the program that prints the table. Returns the number of structs. */
static int write_program(const char *path)
{
  char why[256];
  FILE *f = fopen(path, "w");
  cr_assert(f != NULL, "cannot write %s", path);
  fprintf(f, "#include <stdio.h>\n#include \"plugin_api.h\"\n"
             "#ifdef __cplusplus\n#define TN_ALIGNOF(t) alignof(t)\n#else\n#define TN_ALIGNOF(t) _Alignof(t)\n#endif\n"
             "int main(void)\n{\n  printf(\"# plugin ABI %%u.%%u\\n\", TN_ABI_MAJOR, TN_ABI_MINOR);\n");
  int n = abi_fields(HEADER, f, why);
  fprintf(f, "  return 0;\n}\n");
  cr_assert(fclose(f) == 0);
  cr_assert(n > 0, "%s", why);
  return n;
}

/* A whole file; "" when there is none. Free with free(). */
static char *slurp(const char *path)
{
  char *text = calloc(1, 1 << 18);
  FILE *f = fopen(path, "r");
  if (f) {
    text[fread(text, 1, (1 << 18) - 1, f)] = '\0';
    fclose(f);
  }
  return text;
}

/* The first line in which the two differ, from each. */
static void first_difference(const char *a, const char *b, char out[256])
{
  size_t i = 0, line = 0;
  for (; a[i] && a[i] == b[i]; i++)
    if (a[i] == '\n') line = i + 1;
  a += line, b += line;
  snprintf(out, 256, "is '%.*s', was '%.*s'", (int)strcspn(a, "\n"), a, (int)strcspn(b, "\n"), b);
}

static bool have(const char *compiler)
{
  char cmd[128];
  snprintf(cmd, sizeof cmd, "command -v %s >/dev/null", compiler);
  return system(cmd) == 0;
}

Test(abi_offsets, the_same_in_every_language_as_committed)
{
  static const char *const compilers[][3] = {
      {"gcc", "c", "c11"}, {"clang", "c", "c17"}, {"g++", "c++", "c++11"}, {"clang++", "c++", "c++20"}};
  char *want = slurp(TN_SOURCE_DIR "/tests/abi/offsets.txt");
  int tried = 0;
  mkdir(FOLDER, 0777);
  cr_assert(ge(int, write_program(FOLDER "/offsets.c"), 60));
  for (size_t i = 0; i < sizeof compilers / sizeof compilers[0]; i++) {
    char cmd[2048], difference[256];
    if (!have(compilers[i][0])) continue;
    tried++;
    snprintf(cmd, sizeof cmd,
             "%s -x %s -std=%s -w -I '%s/include' '%s/offsets.c' -o '%s/offsets' && '%s/offsets' > '%s/offsets.txt'",
             compilers[i][0], compilers[i][1], compilers[i][2], TN_SOURCE_DIR, FOLDER, FOLDER, FOLDER, FOLDER);
    cr_assert(system(cmd) == 0, "%s", cmd);
    char *got = slurp(FOLDER "/offsets.txt");
    first_difference(got, want, difference);
    cr_expect(strcmp(got, want) == 0, "%s -std=%s: %s", compilers[i][0], compilers[i][2], difference);
    free(got);
  }
  cr_expect(gt(int, tried, 0));
  free(want);
}

/* The reader of the header knows each kind of declaration: or a struct would be missing without anyone seeing it. */
Test(abi_offsets, fields_of_every_kind_are_read)
{
  static const char *const wanted[] = {
      "tn_err.msg 8 504",         /* an array */
      "tn_tensor.nb 56 32",       /* behind another array */
      "tn_value.v 8 8",           /* a union */
      "tn_param.choices 48 8",    /* a pointer to constant pointers */
      "tn_host.free_ 56 8",       /* a function pointer */
      "tn_host.abi_minor 8 4",    /* not the first of its declaration */
      "tn_weight_src.dmin 112 8", /* the second pointer of its declaration */
      "tn_op.p 56 128",           "tn_mask 40 8", "tn_note 104 4",
  };
  char *table = slurp(TN_SOURCE_DIR "/tests/abi/offsets.txt");
  for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
    char line[96];
    snprintf(line, sizeof line, "\n%s\n", wanted[i]);
    cr_expect(strstr(table, line) != NULL, "%s", wanted[i]);
  }
  free(table);
}
