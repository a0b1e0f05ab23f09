/* `tenon diff`: a change of one ulp that was planted in layer 17 is found and named, equal compositions are equal. */
#include "measure/diff.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/tiny_model.h"

static char dir[32], out[1 << 18];

static void setup(void)
{
  strcpy(dir, "/tmp/tenon-diff-XXXXXX");
  if (access(TN_BUILD_DIR "/bin/tenon", X_OK) != 0) cr_skip_test("the command is not built");
  cr_assert(mkdtemp(dir));
  setenv("TN_PATH", TN_BUILD_DIR "/tests/plugins", 1);
}

static void teardown(void)
{
  char cmd[64];
  snprintf(cmd, sizeof cmd, "rm -rf %s", dir);
  cr_expect(system(cmd) == 0);
}

TestSuite(measure_diff, .init = setup, .fini = teardown, .timeout = 100);

static void write_ini(const char *name, const char *text)
{
  char path[64];
  snprintf(path, sizeof path, "%s/%s", dir, name);
  FILE *f = fopen(path, "w");
  cr_assert(f && fprintf(f, "include = default.ini\n%s", text) > 0 && fclose(f) == 0);
}

/* The report of a.ini against b.ini on a model; NULL when the command printed no JSON. */
static json_t *diff(const char *model, const char *more, int *status)
{
  char cmd[1024];
  snprintf(cmd, sizeof cmd,
           "cd %s && '%s/bin/tenon' diff a.ini b.ini -m %s -t 1 -p 'the planted change' --json %s 2>&1", dir,
           TN_BUILD_DIR, model, more);
  FILE *f = popen(cmd, "r");
  cr_assert(f);
  out[fread(out, 1, sizeof out - 1, f)] = '\0';
  int s = pclose(f);
  *status = WIFEXITED(s) ? WEXITSTATUS(s) : -1;
  return json_loads(out, 0, NULL);
}

static json_int_t number(const json_t *j, const char *key) { return json_integer_value(json_object_get(j, key)); }

static void check_planted(const char *model)
{
  int status;
  write_ini("a.ini", "[compose]\nweights = one_ulp\n");
  write_ini("b.ini", "[compose]\nweights = one_ulp\n[quantizer.one_ulp]\nplant = yes\n");
  json_t *j = diff(model, "-n 8 --dump tensors", &status), *first = json_object_get(j, "first");
  cr_assert_eq(status, 1, "%s", out);
  cr_assert(json_is_object(first), "%s", out);
  cr_expect_str_eq(json_string_value(json_object_get(first, "record")), "blk.17.ffn_up");
  cr_expect_eq((int)number(first, "layer"), 17);
  cr_expect_eq((int)number(first, "element"), 5);
  cr_expect(number(first, "ulp") >= 1 && number(first, "ulp") <= 16, "%s", out);
  const json_t *differing = json_object_get(j, "differing");
  for (size_t i = 0; i < json_array_size(differing); i++) { /* nothing in front of it */
    int layer = 17;
    const char *name = json_string_value(json_object_get(json_array_get(differing, i), "record"));
    cr_expect(sscanf(name, "blk.%d.", &layer) == 0 || layer >= 17, "%s", name);
  }
  json_decref(j);
}

Test(measure_diff, finds_one_ulp_in_layer_17)
{
  static const tiny_spec spec = {.layers = 19, .vocab = 300};
  char model[TINY_PATH], path[96], head[129] = "";
  gguf_writer *w = tiny_writer(&spec);
  tiny_put_tokenizer(w, spec.vocab);
  tiny_write(w, model);
  check_planted(model);
  unlink(model);
  snprintf(path, sizeof path, "%s/tensors/b/blk.17.ffn_up.npy", dir);
  FILE *f = fopen(path, "r");
  cr_assert(f && fread(head, 1, 128, f) == 128, "%s", path);
  fclose(f);
  cr_expect(memcmp(head, "\x93NUMPY\1\0\x76\0{'descr': '<f4', 'fortran_order': False, 'shape': (", 60) == 0, "%s",
            head + 10);
  cr_expect_eq(head[127], '\n');
}

Test(measure_diff, equal_compositions_are_equal)
{
  int status;
  write_ini("a.ini", "");
  write_ini("b.ini", "[compose]\nscheduler = static_batch\nmemory = contiguous\n");
  json_t *j = diff(TN_SOURCE_DIR "/tests/data/tiny/llama.gguf", "-n 4", &status);
  cr_assert_eq(status, 0, "%s", out);
  cr_expect(json_is_true(json_object_get(j, "equal")) && json_is_null(json_object_get(j, "first")), "%s", out);
  cr_expect_gt((int)number(j, "records"), 40);
  json_decref(j);
}

Test(measure_diff, says_which_choice_changes)
{
  int status;
  write_ini("a.ini", "");
  write_ini("b.ini", "[compose]\nweights = int4\n");
  json_t *j = diff(TN_SOURCE_DIR "/tests/data/tiny/llama.gguf", "-n 24", &status);
  cr_assert_eq(status, 1, "%s", out);
  const json_t *choice = json_object_get(j, "choice");
  cr_assert(json_is_object(choice), "%s", out);
  cr_expect(number(choice, "a") != number(choice, "b"));
  json_decref(j);
}

Test(measure_diff_ulps, counts_floats)
{
  cr_expect_eq(tn_diff_ulps(1, 1), 0);
  cr_expect_eq(tn_diff_ulps(1, nextafterf(1, 2)), 1);
  cr_expect_eq(tn_diff_ulps(-1, nextafterf(-1, -2)), 1);
  cr_expect_eq(tn_diff_ulps(0.0f, -0.0f), 0);
  cr_expect_eq(tn_diff_ulps(nextafterf(0, 1), nextafterf(0, -1)), 2);
  cr_expect_eq(tn_diff_ulps(NAN, 1), UINT32_MAX);
}
