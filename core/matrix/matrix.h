/* matrix: which plugins work together, found out by running them.
 *
 * Every plugin of the search path is a part, a quantizer two (as weights and as kv). Each part runs alone, in the default
 * composition, and then every two parts of different keys run together: a text of TN_MATRIX_TEXT tokens whose second half
 * is scored, and beside it three sequences that generate. What comes out is one of
 *   equal     both claim to change nothing, and bitwise nothing changed
 *   kld       measured against the default composition; where one of the two claims to change nothing, the result is
 *             bitwise that of the other alone
 *   refused   composing or opening said why not
 *   fail      anything else: a false claim, a part that took no part, a crash, no end, a failed step, an unsound cache
 *
 * So that a part changes state on a text of this length, its options counted in tokens are made smaller in proportion,
 * the largest TN_MATRIX_TOKENS, and
 * conf/techniques/<name>.ini, where there is one, says what else the part needs. Each run is a process of its own.
 *
 * Thread rule: a process without other threads, because it forks. */
#ifndef TN_CORE_MATRIX_MATRIX_H
#define TN_CORE_MATRIX_MATRIX_H

#include "loader/loader.h"
#include "loader/text.h"

enum { TN_MATRIX_TEXT = 512, TN_MATRIX_FROM = 256, TN_MATRIX_TOKENS = 64, TN_MATRIX_MODELS = 4 };

enum { TN_CELL_EQUAL = 1, TN_CELL_KLD, TN_CELL_REFUSED, TN_CELL_FAIL, TN_N_CELL_KINDS };

typedef struct tn_matrix_part {
  const char *key; /* of [compose] */
  char *name;
  uint32_t slot;
  bool exact;    /* claims to change nothing */
  char *problem; /* why it does not load, or NULL */
  char **sets;   /* [n_sets] "section.key=value" that it runs with */
  size_t n_sets;
} tn_matrix_part;

typedef struct tn_matrix_cell {
  uint32_t a, b;        /* parts, a < b; equal: the part alone */
  uint32_t kind, model; /* TN_CELL_*; which of the models it ran on */
  uint32_t same_as;     /* the part whose result alone this is bitwise; UINT32_MAX: none */
  double kld;           /* mean over the scored rows, nats; 0 where nothing ran */
  uint64_t engaged[2];  /* counters of a and of b */
  char fingerprint[24]; /* of the composition, "" where none was made */
  char text[400];       /* why it was refused or failed */
} tn_matrix_cell;

typedef struct tn_matrix {
  tn_matrix_part *parts; /* [n_parts] by key, then by name */
  tn_matrix_cell *cells; /* [n_cells] the parts alone, then pairs in order */
  size_t n_parts, n_cells, counts[TN_N_CELL_KINDS];
} tn_matrix;

typedef struct tn_matrix_cfg {
  const char *const *models; /* [n_models] a part runs on the first that takes it */
  size_t n_models;
  const char *conf_dir; /* folder of default.ini and techniques/; NULL: none */
  tn_loader *loader;
  const char *only;           /* only pairs with this plugin; NULL: all */
  const char *const *without; /* [n_without] plugins that are left out */
  size_t n_without;
  uint32_t jobs, timeout_s;                                 /* processes at once; seconds of one run */
  bool (*progress)(void *ctx, size_t done, size_t planned); /* false: stop. NULL: none */
  void *ctx;
} tn_matrix_cfg;

/* Errors: TN_E_ARG (no model, no such plugin), TN_E_STATE (stopped by progress), TN_E_IO, TN_E_NOMEM, and what opening
 * the default composition says. */
tn_status tn_matrix_run(const tn_matrix_cfg *cfg, tn_matrix *out, tn_err *err);
void tn_matrix_free(tn_matrix *m);

/* "equal", "kld", "refused", "fail". */
const char *tn_cell_kind_name(uint32_t kind);

/* A KLD as a class that does not depend on the machine: "<0.0001" ... "<1", ">=1". */
const char *tn_kld_class(double kld);

/* The report as Markdown: the same text from the same plugins and models. Check text->failed. */
void tn_matrix_markdown(const tn_matrix *m, const tn_matrix_cfg *cfg, tn_text *text);

#endif
