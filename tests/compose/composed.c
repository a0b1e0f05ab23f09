/* composed: see composed.h. */
#include "compose/composed.h"

#include <stdio.h>
#include <string.h>

#include "support/memfs.h"

void composed_open(composed *w, const char *text, bool with_base, const char *const *sets,
                   const tn_compose_model *model)
{
  const memfile files[] = {{"a.ini", text},
                           {"base.ini", BASE},
                           {"conf/models.ini", "[position]\nnone = turn\nlong = stretch ; any length\n"}};
  memfs m = {files, sizeof files / sizeof files[0]};
  tn_config_fs fs = memfs_fs(&m);
  w->c = NULL;
  w->err = tn_err_init();
  w->catalog = mock_catalog_of(&w->mock);
  w->config = tn_config_new(&fs, "conf");
  tn_status st = with_base ? tn_config_load(w->config, "base.ini", &w->err) : TN_OK;
  if (!st) st = tn_config_load(w->config, "a.ini", &w->err);
  for (size_t i = 0; !st && sets && sets[i]; i++) st = tn_config_set(w->config, sets[i], &w->err);
  if (!st) tn_compose(w->config, &w->catalog, model, &w->c, &w->err);
}

void composed_free(composed *w)
{
  tn_composition_free(w->c);
  tn_config_free(w->config);
  w->c = NULL;
  w->config = NULL;
}

char *refusal_with(const char *text, const tn_compose_model *model)
{
  static char msg[sizeof((tn_err *)0)->msg];
  composed w = {0};
  composed_open(&w, text, true, NULL, model);
  snprintf(msg, sizeof msg, "%s", w.c ? "works" : w.err.msg);
  composed_free(&w);
  return msg;
}

char *refusal(const char *text) { return refusal_with(text, NULL); }

tn_compose_model small_model(const char *scaling)
{
  static const tn_model_shape shape = {
      .struct_size = sizeof shape, .n_layers = 4, .n_heads = 9, .n_kv_heads = 3, .n_ctx_train = 2048};
  return (tn_compose_model){.shape = &shape, .rope_scaling = scaling, .identity = {1, 2, 3}};
}

const tn_choice *part(const composed *w, const char *key) { return tn_composition_part(w->c, key); }
