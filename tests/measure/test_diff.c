/* `tenon diff`: a change of one ulp that was planted in layer 17 is found and named, equal compositions are equal. */
#include "measure/diff.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "diff_rig.h"
#include "support/tiny_model.h"

TestSuite(measure_diff, .init = diff_setup, .fini = diff_teardown, .timeout = 100);

Test(measure_diff, finds_one_ulp_in_layer_17)
{
  static const tiny_spec spec = {.layers = 19, .vocab = 300};
  char model[TINY_PATH], path[96], head[129] = "";
  gguf_writer *w = tiny_writer(&spec);
  tiny_put_tokenizer(w, spec.vocab);
  tiny_write(w, model);
  json_decref(diff_planted(model));
  unlink(model);
  snprintf(path, sizeof path, "%s/tensors/b/blk.17.ffn_up.npy", diff_dir);
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
  diff_ini("a.ini", "");
  diff_ini("b.ini", "[compose]\nscheduler = static_batch\nmemory = contiguous\n");
  json_t *j = diff_run(TN_SOURCE_DIR "/tests/data/tiny/llama.gguf", "-n 4", &status);
  cr_assert_eq(status, 0, "%s", diff_out);
  cr_expect(json_is_true(json_object_get(j, "equal")) && json_is_null(json_object_get(j, "first")), "%s", diff_out);
  cr_expect_gt((int)diff_number(j, "records"), 40);
  json_decref(j);
}

Test(measure_diff, says_which_choice_changes)
{
  int status;
  diff_ini("a.ini", "");
  diff_ini("b.ini", "[compose]\nweights = int4\n");
  json_t *j = diff_run(TN_SOURCE_DIR "/tests/data/tiny/llama.gguf", "-n 24", &status);
  cr_assert_eq(status, 1, "%s", diff_out);
  const json_t *choice = json_object_get(j, "choice");
  cr_assert(json_is_object(choice), "%s", diff_out);
  cr_expect(diff_number(choice, "a") != diff_number(choice, "b"));
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
