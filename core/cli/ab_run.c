/* ab_run: the experiment behind `tenon ab`, or one that is read back. See ab_int.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "ab/report.h"
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

static bool goes_on(void *ctx, const tn_ab_exp *e)
{
  (void)ctx, (void)e;
  return !tn_cli_interrupted();
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

tn_status ab_pairs(const ab_args *a, tn_ab_run *run, tn_ab_results *r, tn_err *err)
{
  const tn_ab_exp *e = run->e;
  shown s = {tn_now_ns(), a->pairs, isatty(STDERR_FILENO) == 1};
  run->go = go;
  run->ctx = &s;
  tn_status st = tn_ab_warm_up(run, err);
  s.start = tn_now_ns();
  if (st == TN_OK) st = tn_ab_blocks(run, (uint32_t)a->pairs, err);
  if (st == TN_OK) st = tn_ab_analyse(e, r, err);
  while (st == TN_OK && a->until > 0 && !e->partial && e->n_blocks < a->max_pairs &&
         tn_ab_width(r, e->n_variants, TN_AB_DECODE_TPS) > log1p(a->until)) {
    s.pairs = e->n_blocks + UNTIL_STEP;
    st = tn_ab_blocks(run, UNTIL_STEP, err);
    if (st == TN_OK) st = tn_ab_analyse(e, r, err);
  }
  if (s.tty) fprintf(stderr, "\r%40s\r", "");
  run->go = goes_on;
  run->ctx = NULL;
  return st;
}

uint32_t ab_raise_pairs(ab_args *a, tn_ab_exp *e, uint32_t *want)
{
  const uint32_t family = tn_ab_tests(a->text != NULL) * (e->n_variants - 1), least = tn_stat_pairs(e->alpha, family);
  *want = least + SPARE_PAIRS;
  if (a->pairs >= *want) return least;
  tn_ab_exp_warn(e, "%lld pairs cannot tell anything apart over %u tests: there will be %u", (long long)a->pairs,
                 family, *want);
  a->pairs = *want;
  return least;
}

/* Enough pairs and chunks that every one of the tests could reach significance after the correction. */
static void raise_counts(ab_bench *b, ab_args *a)
{
  uint32_t want;
  const uint32_t least = ab_raise_pairs(a, &b->e, &want), have = b->chunks.n_chunks,
                 family = tn_ab_tests(true) * (b->e.n_variants - 1);
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
  tn_ab_run run = {.e = &b->e, .rig = b->rig, .prompt = b->prompt};
  tn_status st = ab_pairs(b->a, &run, r, err);
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

tn_status ab_begin(const ab_args *a, tn_ab_exp *e, tn_err *err)
{
  char now[32];
  time_t at = time(NULL);
  struct tm utc;
  uint64_t seed = (uint64_t)a->seed;
  if (seed == 0 && getrandom(&seed, sizeof seed, GRND_NONBLOCK) != sizeof seed) seed = tn_now_ns();
  e->seed = a->seed ? seed : seed >> 32;
  e->n_gen = a->n_gen;
  e->slice = a->slice;
  e->machine = tn_ab_machine();
  if (gmtime_r(&at, &utc) && strftime(now, sizeof now, "%Y-%m-%dT%H:%M:%SZ", &utc) > 0) e->started = tn_strdup(now);
  return ab_prompts_read(a, e, err);
}

void ab_show_warnings(const tn_ab_exp *e)
{
  for (uint32_t i = 0; i < e->n_warnings; i++) fprintf(stderr, "tenon ab: warning: %s\n", e->warning[i]);
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
    b->conf_dir = tn_cli_conf_dir();
    tn_status st = ab_begin(a, &b->e, &err);
    if (st == TN_OK) st = ab_resolve(b, &err);
    if (st == TN_OK) raise_counts(b, a);
    if (st == TN_OK) ab_show_warnings(&b->e);
    if (st == TN_OK) st = probe_all(b, p, &err);
    if (st == TN_OK && a->estimate) {
      code = estimate(b, p);
    } else {
      if (st == TN_OK) st = ab_make_folder(a, &err);
      if (st == TN_OK) st = ab_open(b, &err);
      if (st == TN_OK) st = measure(b, r, &err);
      if (st == TN_OK) st = ab_keep(a, &b->e, r, &err);
      code = st == TN_OK ? ab_print(a, &b->e, r) : tn_cli_fail(&a->cli, &err);
    }
    ab_close(b);
  }
  free(r);
  free(p);
  free(b);
  return tn_cli_interrupted() ? 130 : code;
}
