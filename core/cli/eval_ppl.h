/* eval_ppl: what the files of `tenon eval ppl` and `kld` share: eval_ppl.c runs, eval_ppl_out.c prints, eval_ppl_state.c
 * keeps what is done. */
#ifndef TN_CORE_CLI_EVAL_PPL_H
#define TN_CORE_CLI_EVAL_PPL_H

#include "cli/eval.h"
#include "measure/journal.h"

typedef struct ppl_args {
  tn_eval e;
  const char *file, *base_file, *save_file, *resume_file;
  int64_t n_ctx, chunks, n_prompt, buckets, compact;
  bool kld, ctx_given;
} ppl_args;

/* The running table of kld; with first its head as well. */
void ppl_print_row(const tn_quality *q, const tn_kld_stats *s, bool first);

/* The report. An exit code. */
int ppl_report(ppl_args *a, const tn_chunks *c, const tn_quality *q);

/* Opens the journal and adds to q what it holds. TN_E_ARG, TN_E_IO, TN_E_NOMEM. */
tn_status ppl_resume(const ppl_args *a, const tn_chunks *c, tn_journal **out, tn_quality *q, tn_err *err);
/* Writes the last chunk of q. */
tn_status ppl_keep(tn_journal *j, const tn_quality *q, const tn_chunks *c, tn_err *err);

#endif
