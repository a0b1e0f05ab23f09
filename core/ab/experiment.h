/* experiment: what was run and measured, and what follows from it. Holds all that a verdict needs, so that a stored
 * experiment gives the same verdict again.
 *
 *   block   one prompt, run once by every variant, in random order; the unit of pairing
 *   sample  the figures of one variant in one block
 * Variant 0 is the reference. Thread rule: one thread. */
#ifndef TN_CORE_AB_EXPERIMENT_H
#define TN_CORE_AB_EXPERIMENT_H

#include <jansson.h>

#include "ab/metric.h"
#include "ab/stats.h"

enum { TN_AB_MAX_VARIANTS = 32, TN_AB_MAX_PROMPTS = 256, TN_AB_MAX_REFUSED = 256 };

typedef struct tn_ab_variant { /* texts owned */
  char *name;                  /* "A" */
  char *title;                 /* "conf/a.ini", "kv=int8" */
  char *fingerprint;           /* 16 digits */
  json_t *composition;         /* tn_composition_json */
  json_t *counters;            /* {"slot.plugin.counter": n} at the end, or NULL */
  char *idle;                  /* which techniques never acted, or NULL */
  double rss_bytes, load_s;
  double kld; /* mean over the scored tokens against variant 0; NaN: not measured */
  bool pareto;
} tn_ab_variant;

typedef struct tn_ab_sample {
  bool done;
  uint32_t place; /* when in its block it was started: 0 first */
  double x[TN_AB_N_METRICS];
} tn_ab_sample;

typedef struct tn_ab_prompt {
  char *text;
  int64_t n_tokens;
} tn_ab_prompt;

typedef struct tn_ab_refused { /* of a grid */
  char *title, *reason;
} tn_ab_refused;

typedef struct tn_ab_exp {
  uint64_t seed;
  double alpha, level;
  int64_t n_gen, slice;
  bool partial;
  char *model;       /* file */
  char *model_id;    /* its identity, 64 digits */
  char *started;     /* UTC */
  double seconds;    /* of measuring */
  json_t *machine;   /* processor, memory, load ... */
  char *text;        /* file that perplexity is of, or NULL */
  uint32_t n_chunks; /* of it */
  tn_ab_variant variant[TN_AB_MAX_VARIANTS];
  tn_ab_prompt prompt[TN_AB_MAX_PROMPTS];
  tn_ab_refused refused[TN_AB_MAX_REFUSED];
  uint32_t n_variants, n_prompts, n_blocks, n_refused, cap_blocks;
  uint32_t *block_prompt; /* [n_blocks] */
  tn_ab_sample *sample;   /* [n_blocks][n_variants] */
  double *nll, *kld;      /* [n_variants][n_chunks] mean of a chunk's tokens */
  uint64_t n_scored;      /* tokens of a chunk that are scored */
  char *warning[16];      /* said before the verdict */
  uint32_t n_warnings;
} tn_ab_exp;

void tn_ab_exp_init(tn_ab_exp *e);
void tn_ab_exp_free(tn_ab_exp *e);

/* One more block for a prompt; *row is its samples [n_variants], all NaN. TN_E_NOMEM. */
tn_status tn_ab_exp_block(tn_ab_exp *e, uint32_t prompt, tn_ab_sample **row);

/* Forgets the last block: it is not whole. */
void tn_ab_exp_drop(tn_ab_exp *e);

/* printf into the warnings; past the sixteenth they are dropped. */
void tn_ab_exp_warn(tn_ab_exp *e, const char *fmt, ...) TN_PRINTF(2, 3);

static inline const tn_ab_sample *tn_ab_sample_at(const tn_ab_exp *e, uint32_t block, uint32_t variant)
{
  return &e->sample[(size_t)block * e->n_variants + variant];
}

/* ---------------------------------------------------------------- what follows */

enum {
  TN_AB_NOT_MEASURED = 0,
  TN_AB_BETTER,
  TN_AB_WORSE,
  TN_AB_UNSEEN,  /* no difference that this run could see */
  TN_AB_EQUAL,   /* counted, and the same */
  TN_AB_READING, /* one reading, no noise known */
  TN_AB_TOO_FEW  /* so few pairs that no difference reaches significance, however large */
};

typedef struct tn_ab_result { /* of one variant against variant 0 in one metric */
  uint32_t verdict;
  double a, b;     /* typical value of either, unscaled */
  tn_stat s;       /* of the differences: of logarithms where the metric is a ratio */
  double p_holm;   /* NaN: not tested */
  double seen;     /* smallest difference that could have been seen, as s.est */
  uint32_t needed; /* pairs, so that a difference can be seen at all; 0: not tested */
} tn_ab_result;

typedef struct tn_ab_results {
  uint32_t family;                                      /* tests that Holm's correction counts */
  tn_ab_result at[TN_AB_MAX_VARIANTS][TN_AB_N_METRICS]; /* [0] is the reference: a and b alike */
  double noise[TN_AB_N_METRICS]; /* spread of the reference's runs of one prompt, as a share; NaN: one run each */
} tn_ab_results;

/* Errors: TN_E_NOMEM, TN_E_ARG. */
tn_status tn_ab_analyse(const tn_ab_exp *e, tn_ab_results *r, tn_err *err);

/* A difference as the metric shows it: 0.0296 of a logarithm is 3.0 (percent); else times the metric's scale. */
double tn_ab_shown(tn_ab_metric m, double diff);

/* "better", "worse", "no difference that this run could see", "too few chunks: 4, at least 8 are needed ...". Returns out. */
const char *tn_ab_verdict(tn_ab_metric m, const tn_ab_result *r, char out[160]);

/* Tests that Holm's correction counts for each variant but the first; quality: with a text. */
uint32_t tn_ab_tests(bool quality);

/* The same with the smallest difference that it could have seen: "no difference that this run could see (it would have seen 2.1 %)". Returns out. */
const char *tn_ab_words(tn_ab_metric m, const tn_ab_result *r, char out[160]);

/* What says how fast a run begins: prompt speed, or where that is not known, the time to the first token. */
tn_ab_metric tn_ab_start_metric(const tn_ab_results *r);

/* Marks the variants that no other beats in decode speed, KV bytes and quality at once. */
void tn_ab_pareto(tn_ab_exp *e, const tn_ab_results *r);

/* How far the widest interval of a metric reaches to one side, as s.est; INFINITY before there are two blocks. */
double tn_ab_width(const tn_ab_results *r, uint32_t n_variants, tn_ab_metric m);

#endif
