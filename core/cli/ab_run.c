/* ab_run: the experiment behind `tenon ab`, or one that is read back. See ab_int.h. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "ab/report.h"
#include "ab/store.h"
#include "cli/ab_int.h"

enum { UNTIL_STEP = 5, SPARE_PAIRS = 2 };

/* Time for n pairs and the text, from what single runs took. */
static double seconds_for(const ab_bench *b, const ab_probe *p, int64_t n)
{
  double run = 0;
  for (uint32_t i = 0; i < b->e.n_variants; i++) run += p[i].run_s * (double)(n + 1) + p[i].open_s;
  return run;
}

static int estimate(const ab_bench *b, const ab_probe *p)
{
  double s = seconds_for(b, p, b->a->pairs);
  if (b->a->engine.json)
    return tn_cli_json("ab", json_pack("{s:f, s:I, s:i}", "seconds", s, "pairs", (json_int_t)b->a->pairs, "variants",
                                       (int)b->e.n_variants));
  printf("%lld pairs of %u variants take about %.0f s%s\n", (long long)b->a->pairs, b->e.n_variants, s,
         b->a->text ? ", and the text comes on top" : "");
  return tn_cli_done("ab", TN_EXIT_OK);
}

/* Every variant once, alone: does it run, and do its techniques act? */
static tn_status probe_all(ab_bench *b, ab_probe *p, tn_err *err)
{
  for (uint32_t i = 0; i < b->e.n_variants; i++) {
    tn_ab_variant *v = &b->e.variant[i];
    ab_probe_run(b, i, &p[i]);
    if (tn_cli_interrupted()) return tn_fail(err, TN_E_STATE, "interrupted before the first pair");
    if (p[i].status != TN_OK) return tn_fail(err, (tn_status)p[i].status, "%s (%s): %s", v->name, v->title, p[i].msg);
    v->rss_bytes = p[i].rss_bytes;
    if (!*p[i].idle) continue;
    if (!b->a->allow_idle)
      return tn_fail(
          err, TN_E_STATE,
          "%s (%s): not engaged on the longest prompt, %lld tokens and %lld more: %s; give longer prompts (-f), "
          "more tokens (-n), or --allow-idle to compare all the same",
          v->name, v->title, (long long)b->prompt[b->longest].n, (long long)b->e.n_gen, p[i].idle);
    tn_ab_exp_warn(&b->e, "%s (%s): not engaged on the longest prompt: %s", v->name, v->title, p[i].idle);
  }
  return TN_OK;
}

typedef struct shown {
  uint64_t start;
  int64_t pairs;
  bool tty;
} shown;

static bool go(void *ctx, const tn_ab_exp *e)
{
  shown *s = ctx;
  double spent = (double)(tn_now_ns() - s->start) / 1e9;
  if (s->tty && e->n_blocks > 0 && (int64_t)e->n_blocks < s->pairs)
    fprintf(stderr, "\rpair %u of %lld, %.0f s left  ", e->n_blocks, (long long)s->pairs,
            spent / e->n_blocks * (double)(s->pairs - e->n_blocks));
  return !tn_cli_interrupted();
}

/* Pairs, and with --until more of them. */
static tn_status pairs(ab_bench *b, tn_ab_run *run, tn_ab_results *r, tn_err *err)
{
  shown *s = run->ctx;
  tn_status st = tn_ab_warm_up(run, err);
  s->start = tn_now_ns();
  if (st == TN_OK) st = tn_ab_blocks(run, (uint32_t)b->a->pairs, err);
  if (st == TN_OK) st = tn_ab_analyse(&b->e, r, err);
  while (st == TN_OK && b->a->until > 0 && !b->e.partial && b->e.n_blocks < b->a->max_pairs &&
         tn_ab_width(r, b->e.n_variants, TN_AB_DECODE_TPS) > log1p(b->a->until)) {
    s->pairs = b->e.n_blocks + UNTIL_STEP;
    st = tn_ab_blocks(run, UNTIL_STEP, err);
    if (st == TN_OK) st = tn_ab_analyse(&b->e, r, err);
  }
  if (s->tty) fprintf(stderr, "\r%40s\r", "");
  return st;
}

/* Enough pairs and chunks that every one of the tests could reach significance after the correction. */
static void raise_counts(ab_bench *b, ab_args *a)
{
  const uint32_t family = tn_ab_tests(a->text != NULL) * (b->e.n_variants - 1),
                 least = tn_stat_pairs(b->e.alpha, family), want = least + SPARE_PAIRS, have = b->chunks.n_chunks;
  if (a->pairs < want) {
    tn_ab_exp_warn(&b->e, "%lld pairs cannot tell anything apart over %u tests: there will be %u", (long long)a->pairs,
                   family, want);
    a->pairs = want;
  }
  if (!a->text) return;
  if (have < least)
    tn_ab_exp_warn(&b->e,
                   "%s has %u chunks of %lld tokens, too few to see any difference in perplexity or divergence over %u "
                   "tests, however large: that takes at least %u; give a longer text or a smaller --chunk-size",
                   a->text, have, (long long)a->chunk, family, least);
  else if (a->chunks < least)
    tn_ab_exp_warn(&b->e,
                   "%lld chunks cannot show any difference in perplexity or divergence over %u tests: there will be %u",
                   (long long)a->chunks, family, want < have ? want : have);
  if (a->chunks < least) a->chunks = want;
  if (a->chunks < have) b->chunks.n_chunks = (uint32_t)a->chunks;
}

static tn_status measure(ab_bench *b, tn_ab_results *r, tn_err *err)
{
  shown s = {tn_now_ns(), b->a->pairs, isatty(STDERR_FILENO) == 1};
  tn_ab_run run = {.e = &b->e, .rig = b->rig, .prompt = b->prompt, .go = go, .ctx = &s};
  tn_status st = pairs(b, &run, r, err);
  if (st == TN_OK && b->a->text && !b->e.partial) st = tn_ab_quality(&run, &b->chunks, err);
  if (st == TN_OK && b->e.n_blocks < 2) st = tn_fail(err, TN_E_STATE, "interrupted before the second pair");
  for (uint32_t i = 0; st == TN_OK && i < b->e.n_variants; i++) {
    tn_ab_variant *v = &b->e.variant[i];
    v->counters = tn_ab_rig_counters(&b->rig[i]);
    v->idle = tn_ab_rig_idle(&b->rig[i]);
    if (v->idle && !*v->idle) free(v->idle), v->idle = NULL;
    if (b->rig[i].n_cached) tn_ab_exp_warn(&b->e, "%s: prompts came from a cache: runs were not independent", v->name);
  }
  if (st == TN_OK) st = tn_ab_analyse(&b->e, r, err);
  if (st == TN_OK) tn_ab_pareto(&b->e, r);
  return st;
}

static tn_status prepare(ab_bench *b, tn_err *err)
{
  const ab_args *a = b->a;
  char now[32];
  time_t at = time(NULL);
  struct tm utc;
  uint64_t seed = (uint64_t)a->seed;
  if (seed == 0 && getrandom(&seed, sizeof seed, GRND_NONBLOCK) != sizeof seed) seed = tn_now_ns();
  b->e.seed = a->seed ? seed : seed >> 32;
  b->e.n_gen = a->n_gen;
  b->e.slice = a->slice;
  b->conf_dir = tn_cli_conf_dir();
  b->e.machine = tn_ab_machine();
  if (gmtime_r(&at, &utc) && strftime(now, sizeof now, "%Y-%m-%dT%H:%M:%SZ", &utc) > 0) b->e.started = tn_strdup(now);
  tn_status st = ab_prompts_read(a, &b->e, err);
  return st == TN_OK ? ab_resolve(b, err) : st;
}

/* The folder must not be there: an experiment is never mixed with another. Made before anything runs. */
static tn_status make_folder(const ab_args *a, tn_err *err)
{
  if (!a->out || mkdir(a->out, 0777) == 0) return TN_OK;
  return tn_fail(err, TN_E_IO, "-o %s: cannot be made: %s", a->out, strerror(errno));
}

static tn_status keep_inputs(const ab_bench *b, tn_err *err)
{
  tn_status st = TN_OK;
  for (uint32_t i = 0; st == TN_OK && i < b->e.n_variants; i++) {
    const ab_spec *s = &b->a->spec[i];
    char name[16], *text = NULL;
    size_t n = 0;
    if (!s->conf) continue;
    snprintf(name, sizeof name, "%s.ini", b->e.variant[i].name);
    st = tn_file_read(s->conf, TN_CONFIG_MAX_FILE, &text, &n, err);
    if (st == TN_OK) st = tn_ab_write(b->a->out, name, text, n, err);
    free(text);
  }
  return st;
}

static tn_status keep_reports(const ab_args *a, const tn_ab_exp *e, const tn_ab_results *r, tn_err *err)
{
  tn_status st = TN_OK;
  char *html = NULL;
  if (a->html || a->out) st = tn_ab_html(e, r, &html, err);
  if (st == TN_OK && a->html) st = tn_ab_write(NULL, a->html, html, strlen(html), err);
  if (st == TN_OK && a->out) st = tn_ab_write(a->out, "report.html", html, strlen(html), err);
  free(html);
  if (st != TN_OK || !a->out) return st;
  json_t *j = tn_ab_json(e, r);
  char *text = j ? json_dumps(j, JSON_INDENT(2)) : NULL;
  st = text ? tn_ab_write(a->out, "result.json", text, strlen(text), err)
            : tn_fail(err, TN_E_NOMEM, "no memory for result.json");
  free(text);
  json_decref(j);
  return st;
}

int ab_replay(const ab_args *a)
{
  tn_ab_exp *e = tn_zalloc(1, sizeof *e);
  tn_ab_results *r = tn_zalloc(1, sizeof *r);
  tn_err err = tn_err_init();
  tn_status st = e && r ? TN_OK : tn_fail(&err, TN_E_NOMEM, "no memory for the experiment");
  if (e) tn_ab_exp_init(e);
  if (st == TN_OK) st = tn_ab_load(e, a->replay, &err);
  if (st == TN_OK) st = tn_ab_analyse(e, r, &err);
  if (st == TN_OK) {
    tn_ab_pareto(e, r);
    st = keep_reports(a, e, r, &err);
  }
  int code = st == TN_OK ? ab_print(a, e, r) : tn_cli_fail(&a->cli, &err);
  if (e) tn_ab_exp_free(e);
  free(e);
  free(r);
  return code;
}

int ab_experiment(ab_args *a)
{
  ab_bench *b = tn_zalloc(1, sizeof *b);
  ab_probe *p = tn_zalloc(TN_AB_MAX_VARIANTS, sizeof *p);
  tn_ab_results *r = tn_zalloc(1, sizeof *r);
  tn_err err = tn_err_init();
  int code = TN_EXIT_FAIL;
  if (!b || !p || !r) {
    tn_fail(&err, TN_E_NOMEM, "no memory for the experiment");
    code = tn_cli_fail(&a->cli, &err);
  } else {
    tn_ab_exp_init(&b->e);
    b->a = a;
    tn_status st = prepare(b, &err);
    if (st == TN_OK) raise_counts(b, a);
    for (uint32_t i = 0; st == TN_OK && i < b->e.n_warnings; i++)
      fprintf(stderr, "tenon ab: warning: %s\n", b->e.warning[i]);
    if (st == TN_OK) st = probe_all(b, p, &err);
    if (st == TN_OK && a->estimate) {
      code = estimate(b, p);
    } else {
      if (st == TN_OK) st = make_folder(a, &err);
      if (st == TN_OK) st = ab_open(b, &err);
      if (st == TN_OK) st = measure(b, r, &err);
      if (st == TN_OK && a->out) st = tn_ab_store(&b->e, a->out, &err);
      if (st == TN_OK && a->out) st = keep_inputs(b, &err);
      if (st == TN_OK) st = keep_reports(a, &b->e, r, &err);
      code = st == TN_OK ? ab_print(a, &b->e, r) : tn_cli_fail(&a->cli, &err);
    }
    ab_close(b);
  }
  free(r);
  free(p);
  free(b);
  return tn_cli_interrupted() ? 130 : code;
}
