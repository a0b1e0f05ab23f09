/* engine_args: see engine_args.h. */
#include "cli/engine_args.h"

#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/cache_dir.h"

static volatile sig_atomic_t interrupts; /* a signal handler has nowhere else to write */

static void on_interrupt(int sig)
{
  if (++interrupts > 1) {
    signal(sig, SIG_DFL);
    raise(sig);
  }
}

void tn_cli_catch_interrupt(void)
{
  struct sigaction a = {.sa_handler = on_interrupt};
  sigemptyset(&a.sa_mask);
  sigaction(SIGINT, &a, NULL);
}

static void on_end(int sig)
{
  (void)sig;
  interrupts++;
}

void tn_cli_catch_ends(void)
{
  struct sigaction a = {.sa_handler = on_end};
  sigemptyset(&a.sa_mask);
  sigaction(SIGINT, &a, NULL);
  sigaction(SIGTERM, &a, NULL);
  signal(SIGPIPE, SIG_IGN);
}

int tn_cli_interrupts(void) { return interrupts; }

bool tn_cli_interrupted(void) { return interrupts > 0; }

void tn_cli_forget_interrupt(void) { interrupts = 0; }

bool tn_engine_args_set(tn_engine_args *a, const char *from, const char *key, int64_t value)
{
  char *set = a->n_sets < TN_MAX_SETS ? tn_asprintf("engine.%s=%lld", key, (long long)value) : NULL;
  char *where = set ? tn_strdup(from) : NULL;
  if (!where) {
    free(set);
    fprintf(stderr, "tenon: %s cannot be taken: no memory, or over %u such options\n", from, TN_MAX_SETS);
    return false;
  }
  a->owned[a->n_owned++] = set;
  a->owned[a->n_owned++] = where;
  a->from[a->n_sets] = where;
  a->sets[a->n_sets++] = set;
  return true;
}

void tn_engine_args_release(tn_engine_args *a)
{
  for (size_t i = 0; i < a->n_owned; i++) free(a->owned[i]);
  a->n_owned = 0;
}

/* Keys of [engine] with an option of their own: TN_ENGINE_OPTIONS from FIRST_KEY on. */
static const char *const keys[] = {"ctx", "threads", "max_rows"};
enum { FIRST_KEY = 3 };

static bool take_key(tn_engine_args *a, int i, const char *value)
{
  const tn_cli_option *o = &a->cli->usage->options[i];
  int64_t n;
  char from[64];
  if (!tn_cli_number(a->cli, o->name, value, 0, 1 << 30, &n)) return false;
  snprintf(from, sizeof from, "-%c %lld", o->letter, (long long)n);
  return tn_engine_args_set(a, from, keys[i - FIRST_KEY], n);
}

bool tn_engine_args_take(tn_engine_args *a, int i, const char *value)
{
  switch (i) {
    case 0: a->model = value; return true;
    case 1:
      if (a->n_conf == TN_ARRAY_LEN(a->conf)) return tn_cli_mistake(a->cli, "more than %zu --conf", a->n_conf), false;
      a->conf[a->n_conf++] = value;
      return true;
    case 2:
      if (a->n_sets == TN_MAX_SETS) return tn_cli_mistake(a->cli, "more than %u --set", TN_MAX_SETS), false;
      a->sets[a->n_sets++] = value;
      return true;
    case 3:
    case 4:
    case 5: return take_key(a, i, value);
    case 6: a->json = true; return true;
    case 7: a->verbose = true; return true;
    default: a->no_cache = true; return true;
  }
}

/* Where key of [engine] was set on the command line, "" when it was not. */
static void set_by(const tn_engine_args *a, const char *key, char out[128])
{
  char head[64];
  snprintf(head, sizeof head, "engine.%s=", key);
  out[0] = '\0';
  for (size_t i = 0; i < a->n_sets; i++) {
    if (strncmp(a->sets[i], head, strlen(head)) != 0) continue;
    snprintf(out, 128, "%s%.100s", a->from[i] ? "" : "--set ", a->from[i] ? a->from[i] : a->sets[i]);
  }
}

void tn_engine_args_explain(const tn_engine_args *a, tn_err *err)
{
  const tn_cli_option *options = a->cli->usage->options;
  if (options[FIRST_KEY].letter != 'c') return; /* a command with letters of its own */
  const char *names = strstr(err->msg, "[engine] ");
  for (size_t k = 0; names && k < TN_ARRAY_LEN(keys); k++) {
    char where[128], text[sizeof err->msg];
    if (!strstr(names, keys[k])) continue;
    set_by(a, keys[k], where);
    if (*where && strstr(err->msg, where)) continue;
    snprintf(text, sizeof text, "%s", err->msg);
    if (*where)
      tn_fail(err, err->code, "%s (%s comes from %s)", text, keys[k], where);
    else
      tn_fail(err, err->code, "%s (%s: -%c)", text, keys[k], options[FIRST_KEY + k].letter);
    names = strstr(err->msg, "[engine] ");
  }
}

static void on_log(void *ctx, int32_t level, const char *msg)
{
  const tn_engine_args *a = ctx;
  if (level >= TN_LOG_WARN)
    fprintf(stderr, "%s: %s\n", level == TN_LOG_WARN ? "warning" : "error", msg);
  else if (a->verbose)
    fprintf(stderr, "%s\n", msg);
}

/* A bar that appears when loading is slow, on a terminal only. */
typedef struct progress {
  uint64_t start;
  int shown; /* percent, -1: nothing yet */
} progress;

static bool on_progress(void *ctx, double done)
{
  progress *p = ctx;
  int percent = (int)(done * 100);
  if (tn_cli_interrupted()) return false;
  if (percent == p->shown || tn_now_ns() - p->start < 500000000u || !isatty(STDERR_FILENO)) return true;
  p->shown = percent;
  fprintf(stderr, "\rloading %3d %%", percent);
  return true;
}

/* Where packed weights are kept, and with -v why they are not. Free with free(). */
static char *cache_dir(const tn_engine_args *a)
{
  char *dir = a->no_cache ? NULL : tn_cache_dir();
  if (!dir && !a->no_cache && a->verbose)
    fputs("weights: packed cache is off: neither XDG_CACHE_HOME nor HOME is a path\n", stderr);
  return dir;
}

int tn_engine_args_open(const tn_engine_args *a, const tn_setup_args *more, tn_setup *out)
{
  progress p = {tn_now_ns(), -1};
  char *conf_dir = tn_cli_conf_dir(), *cache = cache_dir(a);
  tn_setup_args args = *more;
  args.conf = a->conf;
  args.n_conf = a->n_conf;
  args.sets = a->sets;
  args.sets_from = a->from;
  args.n_sets = a->n_sets;
  args.model = a->model;
  args.conf_dir = conf_dir;
  args.cache_dir = cache;
  /* Of a look beforehand and the opening behind it one warns: the look, where what follows is no model's answer. */
  args.log = more->no_engine == more->null_forward ? on_log : NULL;
  args.log_ctx = (void *)(uintptr_t)a;
  args.progress = on_progress;
  args.progress_ctx = &p;
  tn_err err = tn_err_init();
  tn_status st = tn_setup_open(&args, out, &err);
  free(conf_dir);
  free(cache);
  if (p.shown >= 0) fprintf(stderr, "\r             \r");
  if (st == TN_OK) return TN_EXIT_OK;
  tn_engine_args_explain(a, &err);
  return tn_cli_fail(a->cli, &err);
}

void tn_cli_thousands(uint64_t n, char out[32])
{
  char digits[24];
  int len = snprintf(digits, sizeof digits, "%llu", (unsigned long long)n), at = 0;
  for (int i = 0; i < len; i++) {
    if (i > 0 && (len - i) % 3 == 0) out[at++] = ',';
    out[at++] = digits[i];
  }
  out[at] = '\0';
}

void tn_engine_print_memory(FILE *out, const tn_setup *s, bool verbose)
{
  tn_engine_info i = tn_engine_stat(s->engine);
  char tokens[32], ctx[32], print[TN_FINGERPRINT_HEX + 1];
  tn_cli_thousands(i.kv_tokens, tokens);
  tn_cli_thousands((uint64_t)i.ctx, ctx);
  if (verbose) {
    char *summary = tn_composition_summary(s->composition);
    tn_composition_short(s->composition, print);
    if (summary) fputs(summary, out);
    free(summary);
    fprintf(out, "device: %s; model weights take %.2f MiB\n", i.device, (double)i.weights_bytes / 1048576);
  }
  fprintf(out, "KV cache size: %s tokens of all requests together, %.2f MiB\n", tokens,
          (double)i.kv_bytes_total / 1048576);
  fprintf(out, "Maximum concurrency for %s tokens per request: %.2fx\n", ctx, i.concurrency);
}

#define MAX_COUNTERS 128u

/* Did another counter of the same part count? Then one at 0 is of work that the part is not there for: rows of weights
 * where it quantizes the cache. */
static bool acts_elsewhere(const tn_counter *c, uint32_t n, uint32_t i)
{
  bool any = false;
  for (uint32_t k = 0; k < n; k++)
    any = any || (c[k].value && !strcmp(c[k].key, c[i].key) && !strcmp(c[k].name, c[i].name));
  return any && c[i].value == 0;
}

void tn_engine_print_counters(FILE *out, const tn_engine *e)
{
  tn_counter c[MAX_COUNTERS];
  uint32_t n = tn_engine_counters(e, c, MAX_COUNTERS);
  if (n > MAX_COUNTERS) n = MAX_COUNTERS;
  for (uint32_t i = 0; i < n; i++)
    if (!acts_elsewhere(c, n, i))
      fprintf(out, "%s/%s: %s %llu\n", c[i].key, c[i].name, c[i].counter, (unsigned long long)c[i].value);
}

json_t *tn_engine_counters_json(const tn_engine *e)
{
  tn_counter c[MAX_COUNTERS];
  uint32_t n = tn_engine_counters(e, c, MAX_COUNTERS);
  json_t *j = json_object();
  char key[256];
  for (uint32_t i = 0; i < n && i < MAX_COUNTERS; i++) {
    snprintf(key, sizeof key, "%s.%s.%s", c[i].key, c[i].name, c[i].counter);
    json_t *old = json_object_get(j, key); /* ranks add up */
    json_object_set_new(j, key, json_integer((json_int_t)c[i].value + (old ? json_integer_value(old) : 0)));
  }
  return j;
}
