/* probe: what the probe plugins of tests/plugins share with their tests: an extension that hands out the plugin's record
 * of what it was asked, and which a test may write a script into. Test code only. */
#ifndef TN_TESTS_PLUGINS_PROBE_H
#define TN_TESTS_PLUGINS_PROBE_H

#include "plugin_api.h"

#define PROBE_EXT "tenon.test.probe/1"

typedef struct probe_lives {                          /* calls of tenon.sequence/1 */
  uint64_t begins, ends, forks, saves, loads, strays; /* strays: about a sequence that never began */
} probe_lives;

typedef struct probe_eviction {
  probe_lives lives;
  uint64_t whens, scores, units, sets;
  uint64_t bad; /* arguments that the contract rules out */
} probe_eviction;

typedef struct probe_draft {
  probe_lives lives;
  uint64_t proposes, outcomes, rows;
  uint64_t bad; /* what the contract rules out, or what does not follow from what was said before */
  uint64_t nodes, accepted;
  const int32_t *script; /* set by the test: the whole text of plain decoding, prompt included; NULL: none */
  int64_t n_script;
  const float *law;   /* set by the test: [V] what q is, and what tokens are drawn from */
  const float *drawn; /* set by the test: [V] draw from this instead, and lie about it; NULL: honest */
  float *taps;        /* set by the test: [n_taps][cap][d], rows of the first sequence by text position; NULL: none */
  int64_t cap, n_tapped; /* n_tapped: rows [0, n_tapped) are filled */
  uint32_t n_taps, reserved0;
} probe_draft;

typedef struct probe_quantizer {
  uint64_t takes, encodes, rows, kv_layouts, calibrates, observes, folds, dequantizes;
} probe_quantizer;

/* What the quantizer probe encodes has nothing to do with the tensor: number `what` of element (row, column) of the
 * tensor of that name, so that a test knows every code and scale without the plugin. */
enum { PROBE_CODE = 1, PROBE_SCALE, PROBE_OFFSET, PROBE_SUB_SCALE, PROBE_SUB_OFFSET, PROBE_SUPER, PROBE_SUPER_MIN };
static inline uint32_t probe_hash(const char *name, int64_t row, int64_t column, uint32_t what)
{
  uint32_t h = 2166136261u ^ what;
  for (; *name; name++) h = (h ^ (uint8_t)*name) * 16777619u;
  h = (h ^ (uint32_t)row) * 0x85EBCA6Bu;
  h ^= h >> 13;
  h = (h ^ (uint32_t)column) * 0xC2B2AE35u;
  return h ^ h >> 16;
}

#endif
