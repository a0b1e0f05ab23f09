/* svg: the plots of a report, as inline SVG whose colours come from the page's style. Each appends to the text; text that
 * a user wrote is escaped. */
#ifndef TN_CORE_AB_SVG_H
#define TN_CORE_AB_SVG_H

#include "ab/experiment.h"
#include "loader/text.h"

/* Differences of variant v in percent with their intervals, one line a metric. */
void tn_ab_svg_intervals(tn_text *t, const tn_ab_results *r, uint32_t v);

/* Decode speed of every pair of variant v, as a difference in percent, prompt by prompt. */
void tn_ab_svg_strip(tn_text *t, const tn_ab_exp *e, uint32_t v);

/* Decode speed over KV cache, one point a variant; those of the Pareto front are filled. */
void tn_ab_svg_pareto(tn_text *t, const tn_ab_exp *e, const tn_ab_results *r);

/* Text with what means something in HTML escaped. */
void tn_ab_escape(tn_text *t, const char *s);

#endif
