/* diff_rig: see diff_rig.h. */
#include "diff_rig.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

char diff_dir[32], diff_out[1 << 18];

void diff_setup(void)
{
  strcpy(diff_dir, "/tmp/tenon-diff-XXXXXX");
  if (access(TN_BUILD_DIR "/bin/tenon", X_OK) != 0) cr_skip_test("the command is not built");
  cr_assert(mkdtemp(diff_dir));
  setenv("TN_PATH", TN_BUILD_DIR "/tests/plugins", 1);
}

void diff_teardown(void)
{
  char cmd[64];
  snprintf(cmd, sizeof cmd, "rm -rf %s", diff_dir);
  cr_expect(system(cmd) == 0);
}

void diff_ini(const char *name, const char *text)
{
  char path[64];
  snprintf(path, sizeof path, "%s/%s", diff_dir, name);
  FILE *f = fopen(path, "w");
  cr_assert(f && fprintf(f, "include = default.ini\n%s", text) > 0 && fclose(f) == 0);
}

json_t *diff_run(const char *model, const char *more, int *status)
{
  char cmd[1024];
  snprintf(cmd, sizeof cmd,
           "cd %s && '%s/bin/tenon' diff a.ini b.ini -m %s -t 1 -p 'the planted change' --json %s 2>&1", diff_dir,
           TN_BUILD_DIR, model, more);
  FILE *f = popen(cmd, "r");
  cr_assert(f);
  diff_out[fread(diff_out, 1, sizeof diff_out - 1, f)] = '\0';
  int s = pclose(f);
  *status = WIFEXITED(s) ? WEXITSTATUS(s) : -1;
  return json_loads(diff_out, 0, NULL);
}

json_int_t diff_number(const json_t *j, const char *key) { return json_integer_value(json_object_get(j, key)); }

json_t *diff_planted(const char *model)
{
  int status;
  diff_ini("a.ini", "[compose]\nweights = one_ulp\n");
  diff_ini("b.ini", "[compose]\nweights = one_ulp\n[quantizer.one_ulp]\nplant = yes\n");
  json_t *j = diff_run(model, "-n 8 --dump tensors", &status), *first = json_object_get(j, "first");
  cr_assert_eq(status, 1, "%s", diff_out);
  cr_assert(json_is_object(first), "%s", diff_out);
  cr_expect_str_eq(json_string_value(json_object_get(first, "record")), "blk.17.ffn_up");
  cr_expect_str_eq(json_string_value(json_object_get(first, "kind")), "LINEAR");
  cr_expect_eq((int)diff_number(first, "layer"), 17);
  cr_expect_eq((int)diff_number(first, "element"), 5);
  cr_expect(diff_number(first, "ulp") >= 1 && diff_number(first, "ulp") <= 16, "%s", diff_out);
  const json_t *differing = json_object_get(j, "differing");
  for (size_t i = 0; i < json_array_size(differing); i++) { /* nothing in front of it */
    int layer = 17;
    const char *name = json_string_value(json_object_get(json_array_get(differing, i), "record"));
    cr_expect(sscanf(name, "blk.%d.", &layer) == 0 || layer >= 17, "%s", name);
  }
  return j;
}
