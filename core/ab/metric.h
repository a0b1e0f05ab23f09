/* metric: what is compared between variants. One table; its order is that of reports. */
#ifndef TN_CORE_AB_METRIC_H
#define TN_CORE_AB_METRIC_H

#include "base.h"

typedef enum tn_ab_metric {
  TN_AB_PROMPT_TPS,
  TN_AB_DECODE_TPS,
  TN_AB_TTFT,
  TN_AB_GAP_P50,
  TN_AB_GAP_P99,
  TN_AB_KV_BYTES,
  TN_AB_RSS,
  TN_AB_ACCEPT,
  TN_AB_MATCH,
  TN_AB_PPL,
  TN_AB_KLD,
  TN_AB_N_METRICS
} tn_ab_metric;

enum {
  TN_AB_TIMED = 0,   /* a run's time: has noise; each block is a pair */
  TN_AB_COUNTED = 1, /* the same whenever the run is repeated: no test, the difference is what it is */
  TN_AB_ONCE = 2,    /* one reading of a whole process */
  TN_AB_QUALITY = 3  /* each chunk of the text is a pair */
};

typedef struct tn_ab_metric_info {
  const char *key, *title; /* "decode_tps", "decode tokens/s" */
  const char *unit;        /* of a value times scale: "t/s", "ms" */
  double scale;
  int better; /* +1 more, -1 less */
  uint32_t kind;
  bool ratio;  /* differences are of logarithms, shown in percent; else as they are */
  double trim; /* see stats.h */
} tn_ab_metric_info;

const tn_ab_metric_info *tn_ab_metric_of(tn_ab_metric m);

/* By key; TN_AB_N_METRICS when there is none. */
tn_ab_metric tn_ab_metric_find(const char *key);

#endif
