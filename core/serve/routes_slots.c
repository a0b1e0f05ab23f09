/* routes_slots: kept conversations: what there is, saving, restoring and forgetting one. */
#include <stdlib.h>
#include <string.h>

#include "serve/server_int.h"

enum MHD_Result tn_serve_slots(tn_exchange *x) { return tn_reply_json(x, 200, tn_slots_json(x->server->slots)); }

/* "/slots/3" as 3, anything else as -1. */
static int64_t id_of(const char *path)
{
  char *end;
  long id = strtol(path + strlen("/slots/"), &end, 10);
  return *end || end == path + strlen("/slots/") ? -1 : id;
}

enum MHD_Result tn_serve_slot(tn_exchange *x)
{
  const char *action = MHD_lookup_connection_value(x->c, MHD_GET_ARGUMENT_KIND, "action");
  tn_fault f = {0};
  size_t n_tokens = 0, n_bytes = 0;
  json_t *body = x->n ? tn_gen_object(x->body, x->n, &f) : json_object();
  if (!body) return tn_reply_fault(x, &f);
  const char *name = json_string_value(json_object_get(body, "filename"));
  bool ok = tn_slots_act(x->server->slots, id_of(x->path), action ? action : "", name, &n_tokens, &n_bytes, &f);
  json_t *answer = ok ? json_pack("{s:I, s:s, s:s?, s:I, s:I}", "id_slot", (json_int_t)id_of(x->path), "action", action,
                                  "filename", name, "n_tokens", (json_int_t)n_tokens, "n_bytes", (json_int_t)n_bytes)
                      : NULL;
  json_decref(body);
  return ok ? tn_reply_json(x, 200, answer) : tn_reply_fault(x, &f);
}
