/* `tenon diff` on a real model: a change of one ulp planted in one scale of SmolLM2's layer 17 is found, and the record,
 * the row and the element that the report names are those of the dumped tensors. label: full */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diff_rig.h"
#include "support/engine_rig.h"

#define MODEL "smollm2-135m-instruct-q4_1.gguf"

TestSuite(measure_diff_model, .init = diff_setup, .fini = diff_teardown, .timeout = 600);

typedef struct tensor { /* a dumped record */
  int rows, cols;
  float *x;
} tensor;

static tensor load(const char *side, const char *record)
{
  char path[128], head[129] = "";
  tensor t = {0};
  snprintf(path, sizeof path, "%s/tensors/%s/%s.npy", diff_dir, side, record);
  FILE *f = fopen(path, "r");
  cr_assert(f && fread(head, 1, 128, f) == 128, "%s", path);
  const char *shape = strstr(head + 10, "'shape': (");
  cr_assert(shape && sscanf(shape, "'shape': (%d, %d)", &t.rows, &t.cols) == 2, "%s", head + 10);
  size_t n = (size_t)t.rows * (size_t)t.cols;
  t.x = malloc(n * sizeof *t.x);
  cr_assert(t.x && fread(t.x, sizeof *t.x, n, f) == n, "%s", path);
  fclose(f);
  return t;
}

Test(measure_diff_model, finds_one_ulp_in_layer_17_of_smollm2)
{
  const char *model = rig_real(MODEL);
  if (!model) rig_skip(MODEL);
  json_t *j = diff_planted(model), *first = json_object_get(j, "first");
  tensor a = load("a", "blk.17.ffn_up"), b = load("b", "blk.17.ffn_up");
  cr_assert(a.rows == b.rows && a.cols == b.cols && a.cols == 1536 && a.rows == (int)diff_number(j, "tokens"));
  int at = 0, elsewhere = 0;
  while (at < a.rows * a.cols && memcmp(&a.x[at], &b.x[at], sizeof *a.x) == 0) at++;
  cr_assert(at < a.rows * a.cols);
  cr_expect_eq((int)diff_number(first, "row"), at / a.cols);
  cr_expect_eq((int)diff_number(first, "element"), at % a.cols);
  cr_expect_float_eq(json_number_value(json_object_get(first, "a")), (double)a.x[at], 0);
  cr_expect_float_eq(json_number_value(json_object_get(first, "b")), (double)b.x[at], 0);
  for (int c = 0; c < a.cols; c++) /* of that row, only the planted element */
    elsewhere += c != at % a.cols && memcmp(&a.x[at - at % a.cols + c], &b.x[at - at % a.cols + c], sizeof *a.x) != 0;
  cr_expect_eq(elsewhere, 0);
  free(a.x), free(b.x);
  json_decref(j);
  char cmd[256];
  snprintf(cmd, sizeof cmd,
           "cd %s/tensors && for f in a/blk.[0-9].*.npy a/blk.1[0-6].*.npy; do cmp $f b/${f#a/} || exit 1; done",
           diff_dir);
  cr_expect_eq(system(cmd), 0, "a record in front of layer 17 differs");
}

Test(measure_diff_model, the_same_without_the_plant)
{
  int status;
  if (!rig_real(MODEL)) rig_skip(MODEL);
  diff_ini("a.ini", "[compose]\nweights = one_ulp\n");
  diff_ini("b.ini", "[compose]\nweights = one_ulp\n[quantizer.one_ulp]\nplant = no\n");
  json_t *j = diff_run(rig_real(MODEL), "-n 8", &status);
  cr_assert_eq(status, 0, "%s", diff_out);
  cr_expect(json_is_true(json_object_get(j, "equal")));
  json_decref(j);
}
