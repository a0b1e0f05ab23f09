/* Every INI file of conf/techniques and conf/recipes composes, runs, and shows by its counters that it took part. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "support/engine_rig.h"
#include "support/tiny_model.h"

/* Some plugin of every key that the file sets has its first counter above zero. */
static void check_engaged(const rig *r, const char *file)
{
  tn_counter c[128];
  uint32_t n = tn_engine_counters(r->s.engine, c, 128);
  cr_assert_gt(n, 0);
  for (uint32_t i = 0; i < n && i < 128; i++) {
    bool first = i == 0 || strcmp(c[i].name, c[i - 1].name) != 0 || strcmp(c[i].key, c[i - 1].key) != 0;
    uint64_t any = 0; /* an instance engages by any of its counters: a quantizer's two jobs have one each */
    for (uint32_t k = i; k < n && strcmp(c[k].name, c[i].name) == 0 && strcmp(c[k].key, c[i].key) == 0; k++)
      any += c[k].value;
    if (first) cr_assert_gt(any, 0, "%s: %s = %s took no part", file, c[i].key, c[i].name);
  }
}

/* The tiny models have two KV heads, the demo model three. */
static void run_file(const char *path, const char *model)
{
  const char *sets[] = {"engine.ctx=256", strstr(path, "tensor") ? "parallel.tensor.world=2" : NULL, NULL};
  rig *r;
  tn_err err = tn_err_init();
  tn_status st = rig_conf(model, path, sets, &r, &err);
  cr_assert_eq(st, TN_OK, "%s: %s", path, err.msg);
  int32_t prompt[120];
  rig_tokens(3, 16, prompt, 120); /* few different tokens, so that a drafter finds something */
  uint32_t at = rig_generate(r, prompt, 120, 24);
  rig_run(r, 0);
  cr_assert_eq(r->r[at].why, TN_FINISH_LENGTH);
  cr_assert_eq(r->r[at].n, 24);
  check_engaged(r, path);
  rig_close(r);
}

/* A model with factors for each rotated pair, as longrope.ini wants one. */
static void write_factors_model(char path[TINY_PATH])
{
  static const tiny_spec spec = {.vocab = 300};
  static const float factors[2][8] = {{1, 1, 1, 1, 1, 1, 1, 1}, {1, 1.1f, 1.3f, 1.5f, 2, 3, 4, 4}};
  int64_t n = 8;
  gguf_writer *w = tiny_writer(&spec);
  tiny_put_tokenizer(w, spec.vocab);
  gguf_put_u32(w, "llama.rope.scaling.original_context_length", 64);
  gguf_put_tensor(w, "rope_factors_short.weight", TN_DT_F32, 1, &n, factors[0], sizeof factors[0]);
  gguf_put_tensor(w, "rope_factors_long.weight", TN_DT_F32, 1, &n, factors[1], sizeof factors[1]);
  tiny_write(w, path);
}

static uint32_t run_folder(const char *folder)
{
  char path[512];
  snprintf(path, sizeof path, "%s/conf/%s", TN_SOURCE_DIR, folder);
  DIR *d = opendir(path);
  cr_assert(d, "%s is not there", path);
  uint32_t n = 0;
  for (struct dirent *e; (e = readdir(d));) {
    if (!strstr(e->d_name, ".ini")) continue;
    snprintf(path, sizeof path, "%s/conf/%s/%s", TN_SOURCE_DIR, folder, e->d_name);
    char model[TINY_PATH];
    if (strcmp(e->d_name, "longrope.ini") == 0) {
      write_factors_model(model);
      run_file(path, model);
      unlink(model);
    } else {
      run_file(path, rig_tiny(strcmp(e->d_name, "yarn.ini") == 0 ? "llama-yarn" : "llama"));
    }
    n++;
  }
  closedir(d);
  return n;
}

Test(engine_recipes, techniques) { cr_assert_geq(run_folder("techniques"), 20); }

Test(engine_recipes, recipes) { cr_assert_geq(run_folder("recipes"), 3); }
