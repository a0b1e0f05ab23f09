/* evict_rule: the options of eviction/probe as settings. */
#ifndef TN_TESTS_EVICT_RULE_H
#define TN_TESTS_EVICT_RULE_H

#include "evict_sim.h"
#include "probe_rig.h"

void evict_rule_set(probe_sets *s, const evict_rule *r);

#endif
