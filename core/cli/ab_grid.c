/* ab_grid: 'eviction=x,- memory=a,b kv=c,-' as a list of variants, one for each combination. See ab_int.h. */
#include <stdlib.h>
#include <string.h>

#include "cli/ab_int.h"

enum { MAX_VALUES = 16 };

typedef struct axis {
  char key[64]; /* "compose.kv", "engine.threads" */
  char value[MAX_VALUES][96];
  uint32_t n;
} axis;

/* One word, "kv=a,b": a key without a dot is one of [compose]. */
static bool take_word(const ab_args *a, const char *p, size_t n, axis *x)
{
  const char *eq = memchr(p, '=', n), *end = p + n;
  size_t len = eq ? (size_t)(eq - p) : 0;
  if (!eq || len == 0 || len > 48 || eq + 1 == end)
    return tn_cli_mistake(&a->cli, "--grid: '%.*s': want KEY=VALUE,VALUE,...", (int)n, p), false;
  bool dot = memchr(p, '.', len) != NULL;
  snprintf(x->key, sizeof x->key, "%s%.*s", dot ? "" : "compose.", (int)len, p);
  for (const char *v = eq + 1; v <= end; v++) {
    const char *comma = memchr(v, ',', (size_t)(end - v));
    size_t k = (size_t)((comma ? comma : end) - v);
    if (k == 0 || k >= sizeof x->value[0] || x->n == MAX_VALUES)
      return tn_cli_mistake(&a->cli, "--grid: '%.*s': want at most %d values, none of them empty (none is -)", (int)n,
                            p, MAX_VALUES),
             false;
    snprintf(x->value[x->n++], sizeof x->value[0], "%.*s", (int)k, v);
    v += k;
  }
  return true;
}

static bool take_all(const ab_args *a, axis *x, uint32_t *n_axes, uint64_t *n_all)
{
  *n_axes = 0;
  *n_all = 1;
  for (const char *p = a->grid; *(p += strspn(p, " \t\n")); p += strcspn(p, " \t\n")) {
    if (*n_axes == AB_MAX_KEYS) return tn_cli_mistake(&a->cli, "--grid: more than %d keys", AB_MAX_KEYS), false;
    if (!take_word(a, p, strcspn(p, " \t\n"), &x[*n_axes])) return false;
    *n_all *= x[(*n_axes)++].n;
  }
  if (*n_all < 2 || *n_all > TN_AB_MAX_VARIANTS)
    return tn_cli_mistake(&a->cli, "--grid: %llu combinations: want 2 to %d", (unsigned long long)*n_all,
                          TN_AB_MAX_VARIANTS),
           false;
  return true;
}

/* How many of a combination's values are "-": the combination that is nearest to the base has most. */
static uint32_t unset(const axis *x, uint32_t n_axes, uint64_t number)
{
  uint32_t n = 0;
  for (uint32_t k = n_axes; k-- > 0; number /= x[k].n) n += strcmp(x[k].value[number % x[k].n], "-") == 0;
  return n;
}

static bool make(ab_args *a, const char *base, const axis *x, uint32_t n_axes, uint64_t number, ab_spec *out)
{
  char title[512] = "";
  size_t at = 0;
  const char *value[AB_MAX_KEYS];
  for (uint32_t k = n_axes; k-- > 0; number /= x[k].n) value[k] = x[k].value[number % x[k].n];
  *out = (ab_spec){.conf = base};
  for (uint32_t k = 0; k < n_axes; k++) {
    const char *key = strncmp(x[k].key, "compose.", 8) ? x[k].key : x[k].key + 8;
    out->sets[k] = tn_asprintf("%s=%s", x[k].key, value[k]);
    if (!out->sets[k]) return tn_cli_mistake(&a->cli, "--grid: no memory"), false;
    out->n_sets++;
    int n = snprintf(title + at, sizeof title - at, "%s%s=%s", at ? " " : "", key, value[k]);
    at += n > 0 && (size_t)n < sizeof title - at ? (size_t)n : 0;
  }
  return (out->title = tn_strdup(title)) != NULL;
}

bool ab_grid_specs(ab_args *a, const char *base)
{
  axis *x = tn_zalloc(AB_MAX_KEYS, sizeof *x);
  uint32_t n_axes;
  uint64_t n_all, first = 0;
  bool ok = x && take_all(a, x, &n_axes, &n_all);
  for (uint64_t i = 1; ok && i < n_all; i++)
    if (unset(x, n_axes, i) > unset(x, n_axes, first)) first = i;
  for (uint64_t i = 0; ok && i < n_all; i++) {
    uint64_t number = i == 0 ? first : i <= first ? i - 1 : i;
    ok = make(a, base, x, n_axes, number, &a->spec[a->n_specs]);
    a->n_specs++;
  }
  free(x);
  return ok;
}
