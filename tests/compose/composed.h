/* composed: one composition of mock plugins from a text, for the tests of this area. */
#ifndef TN_TESTS_COMPOSE_COMPOSED_H
#define TN_TESTS_COMPOSE_COMPOSED_H

#include "compose/compose.h"
#include "support/mock_catalog.h"

/* A composition that works: every required key. */
#define BASE "[compose]\nbackend = fast\nmemory = pages\nattention = plain\nscheduler = queue\n"

typedef struct composed {
  tn_config *config;
  tn_composition *c; /* NULL: refused */
  tn_err err;
  mock_catalog mock;
  tn_catalog catalog;
} composed;

/* text is read as a.ini, after base.ini (BASE) when with_base; sets: NULL-terminated or NULL. conf/models.ini maps none
 * to turn and long to stretch. Release with composed_free. */
void composed_open(composed *w, const char *text, bool with_base, const char *const *sets,
                   const tn_compose_model *model);
void composed_free(composed *w);

/* The refusal of BASE with text behind it, or "works". Static storage. */
char *refusal(const char *text);
char *refusal_with(const char *text, const tn_compose_model *model);

/* A model of 4 layers, 9 heads and 3 KV heads, trained for 2048 tokens. */
tn_compose_model small_model(const char *scaling);

/* The part under a key. */
const tn_choice *part(const composed *w, const char *key);

#endif
