/* bench_rig: see bench_rig.h. */
#include "bench_rig.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#include "support/engine_rig.h"

bench_rig *bench_open(const char *model, const char *const *sets)
{
  bench_rig *r = tn_zalloc(1, sizeof *r);
  size_t n = 0;
  tn_err err = tn_err_init();
  while (sets && sets[n]) n++;
  tn_loader_cfg cfg = {.path = TN_BUILD_DIR "/tests/plugins", .lib_dir = TN_BUILD_DIR "/lib/tenon"};
  cr_assert(tn_loader_new(&cfg, &r->loader, &err) == TN_OK, "%s", err.msg);
  r->bench = tn_bench_new();
  tn_setup_args a = {.sets = sets,
                     .n_sets = n,
                     .model = rig_tiny(model),
                     .conf_dir = TN_SOURCE_DIR "/conf",
                     .loader = r->loader,
                     .events = tn_bench_events(r->bench)};
  cr_assert(tn_setup_open(&a, &r->s, &err) == TN_OK, "%s: %s", model, err.msg);
  r->e = r->s.engine;
  return r;
}

void bench_close(bench_rig *r)
{
  tn_err err = tn_err_init();
  cr_assert(tn_engine_idle(r->e), "a sequence was left behind");
  cr_assert(tn_engine_check(r->e, &err), "%s", err.msg);
  cr_assert(tn_engine_stat(r->e).kv_bytes_used == 0, "pages were left behind");
  tn_setup_close(&r->s);
  tn_bench_free(r->bench);
  tn_loader_free(r->loader);
  free(r);
}

double bench_file_bytes(const bench_rig *r, const char *name)
{
  double sum = 0;
  const tn_gguf *g = r->s.model->gguf;
  for (uint64_t i = 0; i < tn_gguf_n_tensors(g); i++)
    if (!name) sum += (double)tn_gguf_tensor_at(g, i)->bytes;
  return name ? (double)tn_gguf_tensor_find(g, name)->bytes : sum;
}
