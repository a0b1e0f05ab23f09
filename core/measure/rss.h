/* rss: the most memory that this process has had in use. Linux; elsewhere and where /proc does not say, 0.
 * Thread rule: any thread; a reset counts for the whole process. */
#ifndef TN_CORE_MEASURE_RSS_H
#define TN_CORE_MEASURE_RSS_H

#include <stdint.h>

/* From now on tn_rss_peak() counts from what is in use now. */
void tn_rss_reset(void);

/* Bytes. */
uint64_t tn_rss_peak(void);

#endif
