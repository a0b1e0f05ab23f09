/* metric: see metric.h. */
#include "ab/metric.h"

#include <string.h>

#define MIB (1.0 / 1048576)

static const tn_ab_metric_info all[TN_AB_N_METRICS] = {
    [TN_AB_PROMPT_TPS] = {"prompt_tps", "prompt speed", "t/s", 1, 1, TN_AB_TIMED, true, 0.2},
    [TN_AB_DECODE_TPS] = {"decode_tps", "decode speed", "t/s", 1, 1, TN_AB_TIMED, true, 0.2},
    [TN_AB_TTFT] = {"ttft_s", "time to first token", "ms", 1e3, -1, TN_AB_TIMED, true, 0.2},
    [TN_AB_GAP_P50] = {"gap_p50_s", "inter-token gap p50", "ms", 1e3, -1, TN_AB_TIMED, true, 0.2},
    [TN_AB_GAP_P99] = {"gap_p99_s", "inter-token gap p99", "ms", 1e3, -1, TN_AB_TIMED, true, 0.2},
    [TN_AB_KV_BYTES] = {"kv_bytes", "KV cache, peak", "MiB", MIB, -1, TN_AB_COUNTED, true, 0},
    [TN_AB_RSS] = {"rss_bytes", "process memory, peak", "MiB", MIB, -1, TN_AB_ONCE, true, 0},
    [TN_AB_ACCEPT] = {"accept_length", "acceptance length", "tok", 1, 1, TN_AB_COUNTED, true, 0},
    [TN_AB_MATCH] = {"exact_match", "exact match with the first", "%", 100, 1, TN_AB_COUNTED, false, 0},
    [TN_AB_PPL] = {"ppl", "perplexity", "", 1, -1, TN_AB_QUALITY, true, 0},
    [TN_AB_KLD] = {"kld", "KL divergence from the first", "nats", 1, -1, TN_AB_QUALITY, false, 0},
};

const tn_ab_metric_info *tn_ab_metric_of(tn_ab_metric m) { return &all[m]; }

tn_ab_metric tn_ab_metric_find(const char *key)
{
  for (uint32_t i = 0; i < TN_AB_N_METRICS; i++)
    if (!strcmp(all[i].key, key)) return (tn_ab_metric)i;
  return TN_AB_N_METRICS;
}
