/* Conversations that are kept in slots, saved and restored. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "serve_rig.h"
#include "support/engine_rig.h"

#define COMPLETIONS "/v1/completions"

TestSuite(slots, .timeout = 60);

static json_t *slot_act(serve_rig *r, int *status, int slot, const char *action, const char *file)
{
  char *path = tn_asprintf("/slots/%d?action=%s", slot, action);
  json_t *a = serve_post(r, status, path, json_pack("{s:s}", "filename", file));
  free(path);
  return a;
}

/* The text of a greedy answer to token ids on a slot, and how many of them were cached. */
static char *on_slot(serve_rig *r, const json_t *ids, int slot, const char *salt, json_int_t *cached)
{
  json_t *body = json_pack("{s:O, s:i, s:f, s:b, s:i, s:b}", "prompt", ids, "max_tokens", 12, "temperature", 0.0,
                           "ignore_eos", 1, "id_slot", slot, "cache_prompt", 0);
  if (salt) json_object_set_new(body, "cache_salt", json_string(salt));
  json_t *a = serve_post(r, NULL, COMPLETIONS, body);
  *cached = json_integer_value(
      json_object_get(json_object_get(json_object_get(a, "usage"), "prompt_tokens_details"), "cached_tokens"));
  char *text = tn_strdup(json_string_value(json_object_get(json_array_get(json_object_get(a, "choices"), 0), "text")));
  json_decref(a);
  return text;
}

/* A conversation goes on from its slot, also from a file in another server, with the same answer as without; and never
 * for another salt. */
Test(slots, are_kept_saved_and_restored)
{
  char dir[] = "/tmp/tenon-slots-XXXXXX";
  cr_assert(mkdtemp(dir) != NULL);
  tn_server_cfg cfg = {.slot_dir = dir};
  serve_rig *r = serve_open(rig_tiny("llama"), NULL, &cfg);
  json_t *ids = json_array(), *more;
  json_int_t cached;
  int status;
  for (int i = 0; i < 40; i++) json_array_append_new(ids, json_integer(60 + i % 23));
  free(on_slot(r, ids, 2, NULL, &cached));
  json_t *said = serve_post(r, NULL, COMPLETIONS,
                            json_pack("{s:O, s:i, s:f, s:b, s:b}", "prompt", ids, "max_tokens", 12, "temperature", 0.0,
                                      "ignore_eos", 1, "return_tokens", 1));
  more = json_deep_copy(ids);
  json_array_extend(more, json_object_get(json_array_get(json_object_get(said, "choices"), 0), "tokens"));
  json_array_append_new(more, json_integer(70));
  json_decref(slot_act(r, NULL, 2, "save", "a.slot"));
  char *want = on_slot(r, more, 3, NULL, &cached), *got = on_slot(r, more, 2, NULL, &cached);
  cr_assert(cached >= 40);
  cr_assert(eq(str, got, want));
  free(got);
  json_decref(slot_act(r, &status, 2, "save", "../a"));
  cr_assert(eq(int, status, 400));
  json_decref(slot_act(r, &status, 99, "save", "a"));
  cr_assert(eq(int, status, 404));
  serve_close(r);

  r = serve_open(rig_tiny("llama"), NULL, &cfg);
  json_decref(slot_act(r, NULL, 1, "restore", "a.slot"));
  got = on_slot(r, more, 1, "other", &cached);
  cr_assert(eq(i64, cached, 0));
  free(got);
  json_decref(slot_act(r, NULL, 1, "restore", "a.slot"));
  got = on_slot(r, more, 1, NULL, &cached);
  cr_assert(cached >= 40);
  cr_assert(eq(str, got, want));
  json_decref(slot_act(r, &status, 1, "restore", "none"));
  cr_assert(eq(int, status, 400));
  free(got), free(want);
  json_decref(ids), json_decref(more), json_decref(said);
  serve_close(r);
  char *file = tn_asprintf("%s/a.slot", dir);
  unlink(file), rmdir(dir);
  free(file);
}
