/* engaged: did every technique of a composition act? See rig.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ab/rig.h"
#include "engine/engine_int.h"
#include "loader/text.h"

enum { MAX_COUNTERS = 256 };

json_t *tn_ab_rig_counters(const tn_ab_rig *r)
{
  tn_counter c[MAX_COUNTERS];
  uint32_t n = tn_engine_counters(r->s.engine, c, MAX_COUNTERS);
  json_t *j = json_object();
  char key[256];
  for (uint32_t i = 0; j && i < n && i < MAX_COUNTERS; i++) {
    snprintf(key, sizeof key, "%s.%s.%s", c[i].key, c[i].name, c[i].counter);
    json_t *old = json_object_get(j, key); /* ranks and layers add up */
    json_object_set_new(j, key, json_integer((json_int_t)c[i].value + (old ? json_integer_value(old) : 0)));
  }
  return j;
}

/* Sum of a part's counters; *any: it has some. */
static uint64_t count_of(const tn_engine *e, const tn_choice *p, bool *any)
{
  tn_counter c[MAX_COUNTERS];
  uint32_t n = tn_engine_counters(e, c, MAX_COUNTERS);
  uint64_t sum = 0;
  *any = false;
  for (uint32_t i = 0; i < n && i < MAX_COUNTERS; i++) {
    if (strcmp(c[i].key, p->key) != 0 || strcmp(c[i].name, p->desc->name) != 0) continue;
    *any = true;
    sum += c[i].value;
  }
  return sum;
}

/* Why a part counts as idle; NULL: it acted, or cannot be asked. */
static const char *idle_why(const tn_ab_rig *r, const tn_choice *p)
{
  bool any;
  uint64_t sum = count_of(r->s.engine, p, &any);
  if (p->slot == TN_SLOT_DRAFT && r->n_drafted == 0) return "drafted no token";
  if (p->slot == TN_SLOT_EVICTION && r->n_dropped + r->n_demoted == 0 && !r->hidden)
    return "dropped no token of the cache";
  return any && sum == 0 ? "its counters are all 0" : NULL;
}

char *tn_ab_rig_idle(const tn_ab_rig *r)
{
  tn_text t = {0};
  for (size_t i = 0; i < tn_composition_n(r->s.composition); i++) {
    const tn_choice *p = tn_composition_at(r->s.composition, i);
    const char *why = idle_why(r, p);
    if (why) tn_text_addf(&t, "%s%s = %s (%s)", t.n ? ", " : "", p->key, p->desc->name, why);
  }
  char *out = t.failed ? NULL : tn_strdup(tn_text_str(&t));
  tn_text_release(&t);
  return out;
}
