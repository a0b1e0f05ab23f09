/* quality_rig: see quality_rig.h. */
#include "quality_rig.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#include "support/engine_rig.h"

quality_rig *quality_open(const char *model, const char *const *sets)
{
  quality_rig *r = tn_zalloc(1, sizeof *r);
  size_t n = 0;
  tn_err err = tn_err_init();
  while (sets && sets[n]) n++;
  tn_loader_cfg cfg = {.path = TN_BUILD_DIR "/tests/plugins", .lib_dir = TN_BUILD_DIR "/lib/tenon"};
  cr_assert(tn_loader_new(&cfg, &r->loader, &err) == TN_OK, "%s", err.msg);
  r->scorer = tn_scorer_new();
  tn_setup_args a = {.sets = sets,
                     .n_sets = n,
                     .model = rig_tiny(model),
                     .conf_dir = TN_SOURCE_DIR "/conf",
                     .loader = r->loader,
                     .events = tn_scorer_events(r->scorer)};
  cr_assert(tn_setup_open(&a, &r->s, &err) == TN_OK, "%s: %s", model, err.msg);
  return r;
}

void quality_close(quality_rig *r)
{
  tn_err err = tn_err_init();
  cr_assert(tn_engine_idle(r->s.engine), "a sequence was left behind");
  cr_assert(tn_engine_check(r->s.engine, &err), "%s", err.msg);
  cr_assert(tn_engine_stat(r->s.engine).kv_bytes_used == 0, "pages were left behind");
  tn_setup_close(&r->s);
  tn_scorer_free(r->scorer);
  tn_loader_free(r->loader);
  free(r);
}

tn_chunks quality_chunks(const quality_rig *r, uint32_t n_chunks, int64_t n_ctx, int64_t n_prompt)
{
  tn_chunks c = {.n_tokens = n_ctx * n_chunks, .n_ctx = n_ctx, .n_prompt = n_prompt, .n_chunks = n_chunks, .bos = -1};
  c.tokens = tn_zalloc((size_t)c.n_tokens, sizeof *c.tokens);
  cr_assert(c.tokens != NULL);
  rig_tokens(7, r->s.model->shape.n_vocab, c.tokens, c.n_tokens);
  return c;
}
