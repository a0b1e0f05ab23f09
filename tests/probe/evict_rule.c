/* evict_rule: see evict_rule.h. */
#include "evict_rule.h"

static const char *const policy[] = {"h2o", "snap", "knorm", "all"}, *const gran[] = {"all", "layer", "head"};
static const char *const verdict[] = {"score", "drop", "demote_even", "demote_all", "demote_none"};

void evict_rule_set(probe_sets *s, const evict_rule *r)
{
  probe_set(s, "compose.eviction=probe");
  probe_set(s, "eviction.probe.policy=%s", policy[r->policy]);
  probe_set(s, "eviction.probe.gran=%s", gran[r->gran]);
  probe_set(s, "eviction.probe.verdict=%s", verdict[r->verdict]);
  probe_set(s, "eviction.probe.budget=%lld", (long long)r->budget);
  probe_set(s, "eviction.probe.every=%lld", (long long)r->every);
  probe_set(s, "eviction.probe.recent=%lld", (long long)r->recent);
  probe_set(s, "eviction.probe.sinks=%lld", (long long)r->sinks);
  probe_set(s, "eviction.probe.window=%lld", (long long)r->window);
  probe_set(s, "eviction.probe.rank_rope=%d", r->rank_rope);
  probe_set(s, "eviction.probe.stateful=%d", r->stateful);
}
