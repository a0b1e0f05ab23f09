/* bench_sweep: see bench_sweep.h. */
#include "cli/bench_sweep.h"

#include <stdlib.h>
#include <string.h>

/* The alternatives of "a,b" or of what follows the "=" of a setting. */
static const char *list_of(const char *text, bool set)
{
  const char *eq = set ? strchr(text, '=') : NULL;
  return eq ? eq + 1 : text;
}

static bool braced(const char *list)
{
  size_t n = strlen(list);
  return n >= 2 && list[0] == '{' && list[n - 1] == '}';
}

static uint32_t count(const char *text, bool set)
{
  const char *list = list_of(text, set);
  uint32_t n = 1;
  for (const char *p = list; !braced(list) && (p = strchr(p, ',')); p++) n++;
  return n;
}

/* Alternative k of the text. NULL: no memory. */
static char *pick(const char *text, bool set, uint32_t k)
{
  const char *list = list_of(text, set), *p = list;
  int head = (int)(list - text);
  if (braced(list)) return tn_asprintf("%.*s%.*s", head, text, (int)strlen(list) - 2, list + 1);
  for (; k > 0; k--) p = strchr(p, ',') + 1;
  return tn_asprintf("%.*s%.*s", head, text, (int)strcspn(p, ","), p);
}

uint32_t tn_bench_sweep_n(const tn_engine_args *a)
{
  uint32_t n = 1;
  for (size_t i = 0; i < a->n_conf; i++) n *= count(a->conf[i], false);
  for (size_t i = 0; i < a->n_sets; i++) n *= a->from[i] ? 1 : count(a->sets[i], true);
  return n;
}

static bool choose(tn_engine_args *out, const char **text, bool set, uint32_t *k, char variant[128])
{
  uint32_t n = count(*text, set);
  if (n == 1 && !braced(list_of(*text, set))) return true;
  char *chosen = pick(*text, set, *k % n);
  if (!chosen) return false;
  size_t at = strlen(variant);
  if (n > 1) snprintf(variant + at, 128 - at, "%s%s", at ? " " : "", chosen);
  *k /= n;
  *text = out->owned[out->n_owned++] = chosen;
  return true;
}

bool tn_bench_sweep_at(const tn_engine_args *a, uint32_t k, tn_engine_args *out, char variant[128])
{
  bool ok = true;
  *out = *a;
  out->n_owned = 0;
  variant[0] = '\0';
  for (size_t i = a->n_sets; ok && i-- > 0;) /* the last setting changes fastest */
    if (!a->from[i]) ok = choose(out, &out->sets[i], true, &k, variant);
  for (size_t i = a->n_conf; ok && i-- > 0;) ok = choose(out, &out->conf[i], false, &k, variant);
  if (!ok) tn_engine_args_release(out);
  return ok;
}
