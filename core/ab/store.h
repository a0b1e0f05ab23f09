/* store: an experiment as a folder, and back.
 *
 *   experiment.json   everything but the samples: seed, model, prompts, variants, machine, perplexity by chunk
 *   samples.jsonl     one line a run: {"block", "prompt", "variant", "place", and each metric}
 *   A.ini, B.ini ...  the file of each variant, as it was
 * The caller adds result.json and report.html. What is read back gives the same verdict. */
#ifndef TN_CORE_AB_STORE_H
#define TN_CORE_AB_STORE_H

#include "ab/experiment.h"

enum { TN_AB_FORMAT = 1 };

/* Writes into dir, which is there. Errors: TN_E_IO with the file and the reason, TN_E_NOMEM. */
tn_status tn_ab_store(const tn_ab_exp *e, const char *dir, tn_err *err);

/* Reads into an empty *e, which the caller frees also after a failure. Errors: TN_E_IO, TN_E_ARG with file and line of
 * what is not as written, TN_E_NOMEM. */
tn_status tn_ab_load(tn_ab_exp *e, const char *dir, tn_err *err);

/* A whole file at once; dir NULL: name is the path. */
tn_status tn_ab_write(const char *dir, const char *name, const char *text, size_t n, tn_err *err);

#endif
