/* Reports: summary, explanation, difference, JSON. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <string.h>

#include "compose/composed.h"

static composed w, v;

static void done(void)
{
  composed_free(&w);
  composed_free(&v);
}
TestSuite(report, .fini = done);

static void open_text(composed *c, const char *text)
{
  *c = (composed){0};
  composed_open(c, text, true, NULL, NULL);
  cr_assert(c->c != NULL, "%s", c->err.msg);
}

static void has(const char *text, const char *want)
{
  cr_assert(strstr(text, want) != NULL, "no '%s' in\n%s", want, text);
}

Test(report, summary)
{
  open_text(&w, "[compose]\nattention.layers = 0-1:plain, 2-:window\n");
  char *s = tn_composition_summary(w.c);
  has(s, "backend              = fast    org.mock.fast   1.0.0  (base.ini:2)\n");
  has(s, "attention.layers 0-1 = plain   org.mock.plain  1.0.0  (a.ini:2)\n");
  has(s, "attention.layers 2-  = window  org.mock.window 1.0.0  (a.ini:2)\n");
  has(s, "\nfingerprint ");
  free(s);
}

Test(report, explain)
{
  open_text(&w, "[compose]\neviction = last\n[eviction.last]\nspan = 9\n");
  char *s = tn_composition_explain(w.c);
  has(s, "read base.ini\n     a.ini\n");
  has(s, "\neviction = last\n    mock of slot EVICTION\n    plugin    org.mock.last 1.0.0, \n    set at    a.ini:2\n");
  has(s, "    needs     kv.token_drop/1: dropping tokens from the cache, from memory = pages\n");
  has(s, "    needs     kv.entries/1: a cache entry for each token, from the host\n");
  has(s, "    first = 4                          default\n        help of first\n");
  has(s, "    span = 9                           a.ini:4\n");
  has(s, "    log_every = 0                      default  [does not change tokens]\n");
  has(s, "    set at    conf/models.ini:2 (no key, and no model is open: positions are plain)\n");
  has(s, "\nnot set: weights, kv, demote, draft, parallel\n");
  has(s, "\n[engine]\n    threads = 0 ");
  has(s, "\n[model]\n    path = (none) ");
  free(s);
}

/* Values and origins of any length leave the columns where they are. */
Test(report, explain_in_columns)
{
  open_text(&w, "[compose]\nkv = q8\n[quantizer.q8]\ntable = /a/path/that/is/longer/than/its/column.bin\n"
                "[engine]\nthreads = 2\n");
  char *s = tn_composition_explain(w.c);
  has(s, "    group = 32                         default\n        help of group\n");
  has(s, "    table = /a/path/that/is/longer/than/its/column.bin\n"
         "                                       a.ini:4\n        codebook\n");
  has(s, "    threads = 2                        a.ini:6  [does not change tokens]\n");
  has(s, "    max_seqs = 8                       default  [does not change tokens]\n");
  free(s);
}

Test(report, difference)
{
  open_text(&w, "[compose]\neviction = last\n[engine]\nthreads = 2\n");
  open_text(&v, "[compose]\nkv = q8\nmemory = slab\n");
  char *s = tn_composition_diff(w.c, v.c);
  cr_assert(eq(str, s,
               "memory                             pages (org.mock.pages 1.0.0) -> slab (org.mock.slab 1.0.0)\n"
               "memory.pages.page_tokens           32 -> -  [does not change tokens]\n"
               "memory.pages.old                   0 -> -  [does not change tokens]\n"
               "eviction                           last (org.mock.last 1.0.0) -> -\n"
               "eviction.last.first                4 -> -\n"
               "eviction.last.span                 508 -> -\n"
               "eviction.last.log_every            0 -> -  [does not change tokens]\n"
               "engine.threads                     2 -> 0  [does not change tokens]\n"
               "kv                                 - -> q8 (org.mock.q8 1.0.0)\n"
               "quantizer.q8@kv.group              - -> 32\n"
               "quantizer.q8@kv.mode               - -> even\n"
               "quantizer.q8@kv.table              - -> (none)\n"));
  free(s);
  s = tn_composition_diff(w.c, w.c);
  cr_assert(eq(str, s, ""));
  free(s);
}

Test(report, json)
{
  open_text(&w, "[compose]\neviction = last\nattention.layers = 0-1:plain, 2-:window\n[eviction.last]\nspan = 9\n");
  json_t *j = tn_composition_json(w.c), *parts = json_object_get(j, "parts"), *p = NULL;
  cr_assert(eq(sz, json_array_size(parts), 7));
  char hex[TN_FINGERPRINT_HEX + 1];
  tn_composition_short(w.c, hex);
  cr_assert(eq(str, (char *)json_string_value(json_object_get(j, "fingerprint")), hex));
  cr_assert(eq(sz, strlen(json_string_value(json_object_get(j, "sha256"))), 64));
  p = json_array_get(parts, 2);
  cr_assert(eq(str, (char *)json_string_value(json_object_get(p, "name")), "plain"));
  cr_assert(eq(int, (int)json_integer_value(json_object_get(p, "last_layer")), 1));
  p = json_array_get(parts, 6);
  cr_assert(eq(str, (char *)json_string_value(json_object_get(p, "key")), "eviction"));
  json_t *span = json_object_get(json_object_get(p, "options"), "span");
  cr_assert(eq(int, (int)json_integer_value(json_object_get(span, "value")), 9));
  cr_assert(eq(str, (char *)json_string_value(json_object_get(span, "from")), "a.ini:5"));
  cr_assert(eq(int, json_is_true(json_object_get(span, "changes_tokens")), 1));
  cr_assert(eq(int, json_is_object(json_object_get(json_object_get(j, "engine"), "verify")), 1));
  json_decref(j);
}

Test(report, difference_json)
{
  open_text(&w, "");
  open_text(&v, "[engine]\nseed = 5\n");
  json_t *j = tn_composition_diff_json(w.c, v.c), *list = json_object_get(j, "differences");
  cr_assert(eq(sz, json_array_size(list), 1));
  json_t *d = json_array_get(list, 0);
  cr_assert(eq(str, (char *)json_string_value(json_object_get(d, "name")), "engine.seed"));
  cr_assert(eq(str, (char *)json_string_value(json_object_get(d, "b")), "5"));
  cr_assert(eq(int, json_is_true(json_object_get(d, "changes_tokens")), 1));
  json_decref(j);
}
