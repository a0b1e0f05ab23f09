/* report: an experiment and its verdicts as JSON and as one HTML file, and what machine it ran on. */
#ifndef TN_CORE_AB_REPORT_H
#define TN_CORE_AB_REPORT_H

#include "ab/experiment.h"
#include "loader/text.h"

/* Verdicts for programs: {"variants": [...], "comparisons": [{"variant", "metric", ...}], ...}. A new reference; NULL: no
 * memory. Figures that were not measured are null. */
json_t *tn_ab_json(const tn_ab_exp *e, const tn_ab_results *r);

/* The report as one HTML page that needs nothing else: tables, plots as inline SVG, light and dark, for print too. *out is
 * the caller's (free()). TN_E_NOMEM. */
tn_status tn_ab_html(const tn_ab_exp *e, const tn_ab_results *r, char **out, tn_err *err);

/* Appends j (NULL: the text fails) as JSON; flags are the library's. */
void tn_ab_json_text(tn_text *t, const json_t *j, size_t flags);

/* {"processor", "cpus", "kernel", "memory_bytes", "load", "governor"} of this machine, now. NULL: no memory. */
json_t *tn_ab_machine(void);

#endif
