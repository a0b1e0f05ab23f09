/* ab_int: what the files of `tenon ab` share: ab.c is the command line, ab_prompts.c and ab_grid.c its input, ab_open.c
 * opens and guards the variants, ab_probe.c runs each once in a process of its own, ab_run.c is the work, ab_url.c that
 * over running servers, ab_keep.c keeps and reads back, ab_out.c prints. */
#ifndef TN_CORE_CLI_AB_INT_H
#define TN_CORE_CLI_AB_INT_H

#include "ab/run.h"
#include "cli/engine_args.h"

enum { AB_MAX_KEYS = 16, AB_MAX_TEXTS = 64 };

typedef struct ab_spec {   /* how a variant is made: a file, or none, and settings */
  const char *conf;        /* borrowed */
  char *title;             /* owned */
  char *sets[AB_MAX_KEYS]; /* owned */
  size_t n_sets;
} ab_spec;

typedef struct ab_args {
  tn_cli_args cli;
  tn_engine_args engine; /* what all variants share */
  const char *texts[AB_MAX_TEXTS];
  uint32_t n_texts;
  const char *prompts, *text, *grid, *out, *html, *replay;
  int64_t n_gen, pairs, max_pairs, seed, slice, chunks, chunk;
  double until; /* 0: no goal */
  bool estimate, allow_idle, allow_models;
  const char *urls[TN_AB_MAX_VARIANTS]; /* "NAME=URL" */
  uint32_t n_urls;
  ab_spec spec[TN_AB_MAX_VARIANTS];
  uint32_t n_specs;
} ab_args;

/* What one run in a process of its own has shown. */
typedef struct ab_probe {
  int32_t status; /* tn_status */
  double open_s, run_s, rss_bytes;
  char idle[512]; /* techniques that did not act; "" */
  char msg[512];
} ab_probe;

typedef struct ab_bench { /* an experiment and what it runs on */
  const ab_args *a;
  tn_ab_exp e;
  tn_loader *loader;
  char *conf_dir;
  tn_ab_rig *rig; /* [n_specs] */
  uint32_t n_open;
  tn_ab_tokens prompt[TN_AB_MAX_PROMPTS];
  uint32_t longest;                 /* the prompt with most tokens */
  tn_chunks chunks;                 /* of --text */
  bool own_ctx[TN_AB_MAX_VARIANTS]; /* the variant says [engine] ctx itself */
  bool own_seqs[TN_AB_MAX_VARIANTS];
} ab_bench;

/* ab_grid.c: "key=a,b other=c,-" over the base; every combination becomes a spec. False: a mistake that has been printed. */
bool ab_grid_specs(ab_args *a, const char *base);

/* ab_prompts.c: prompts into the experiment: of -p, -f, or those that come with the command. Errors as of tn_file_read. */
tn_status ab_prompts_read(const ab_args *a, tn_ab_exp *e, tn_err *err);

/* ab_open.c: resolves every variant, refuses other models, tokenizes prompts and text, warns of equals; then opens the
 * engines. A grid's refused combinations are listed and left out. */
tn_status ab_resolve(ab_bench *b, tn_err *err);
tn_status ab_open(ab_bench *b, tn_err *err);
void ab_close(ab_bench *b);

/* Settings of variant i: common, its own, and the room that the prompts need. Release with ab_setup_release. */
typedef struct ab_setup {
  tn_setup_args args;
  const char *sets[TN_MAX_SETS + AB_MAX_KEYS + 2], *from[TN_MAX_SETS + AB_MAX_KEYS + 2];
  char ctx[64];
} ab_setup;

void ab_setup_of(const ab_bench *b, uint32_t i, ab_setup *out);

/* ab_probe.c: runs variant i once, alone in a process. */
void ab_probe_run(const ab_bench *b, uint32_t i, ab_probe *out);

/* ab_run.c: runs the experiment; prints and keeps it. The exit code. */
int ab_experiment(ab_args *a);

/* What it shares with ab_url.c: seed, time, machine and prompts; then, when the variants are counted, enough pairs for as
 * many tests (*want, with some to spare; returned: the fewest that can show anything); the pairs, with --until more of them,
 * with progress; warnings so far. */
tn_status ab_begin(const ab_args *a, tn_ab_exp *e, tn_err *err);
uint32_t ab_raise_pairs(ab_args *a, tn_ab_exp *e, uint32_t *want);
tn_status ab_pairs(const ab_args *a, tn_ab_run *run, tn_ab_results *r, tn_err *err);
void ab_show_warnings(const tn_ab_exp *e);

/* ab_url.c: the experiment over running servers. The exit code. */
int ab_servers(ab_args *a);

/* ab_keep.c: the folder of -o, made before anything runs: an experiment is never mixed with another; then all that is kept,
 * -o and --html; an experiment that is read back and printed, the exit code. */
tn_status ab_make_folder(const ab_args *a, tn_err *err);
tn_status ab_keep(const ab_args *a, const tn_ab_exp *e, const tn_ab_results *r, tn_err *err);
int ab_replay(const ab_args *a);

/* ab_out.c: the table, or JSON. */
int ab_print(const ab_args *a, const tn_ab_exp *e, const tn_ab_results *r);

#endif
