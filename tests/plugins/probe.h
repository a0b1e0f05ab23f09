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

typedef struct probe_scheduler {
  uint64_t plans, victims, preempts, bad;
} probe_scheduler;

typedef struct probe_memory {
  uint64_t configures, admits, takes, gives, ends, refused, bad;
  uint64_t near, jumps; /* near: calls that named a page of the sequence; jumps: pages handed out of order */
  uint64_t held, in;    /* now: pages taken, sequences admitted */
} probe_memory;

typedef struct probe_position {
  uint64_t tables, regimes, bad;
  int64_t regime[8]; /* of the last eight sequences that were asked about, newest first */
} probe_position;

typedef struct probe_attention {
  uint64_t describes, tiles, bad;
} probe_attention;

typedef struct probe_device {
  uint64_t calls, hooks, runs, late, bad; /* late: transfers that arrived with a sync */
  void *region;                           /* where nobody but the backend may read */
  uint64_t used;
} probe_device;

typedef struct probe_service {
  uint64_t checks, bad; /* bad: what a service answered otherwise than it should */
  uint64_t proposes, nodes, seq;
  double uniform[4]; /* of request, n, purpose 5, index 0 .. 3 at the first propose() */
  int64_t n;         /* tokens of the request that logits are about */
  float *logits;     /* set by the test: what the services computed last (exit: first) */
} probe_service;

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

/* What the attention probe's patterns are made of. */
enum { PROBE_FEATURES = 48, PROBE_NO_TILE = 3 };
static inline uint32_t probe_mix(uint32_t seed, int64_t a, int64_t b, uint32_t what)
{
  char name[2] = {(char)('a' + seed % 26), 0};
  return probe_hash(name, a, b, what + 97 * seed);
}

/* The mask of one layer and KV head: windows, strides and sinks of small size, so that all of them matter. */
static inline tn_mask probe_mask(uint32_t seed, uint32_t layer, uint32_t head)
{
  uint32_t h = probe_mix(seed, layer, head, 11);
  tn_mask m = {h >> 2 & 1 ? 3 : 0, 20 + h % 30, 1 + (h >> 4) % 3, 0, (h >> 8) % 4};
  if (m.lo == 0) return m; /* without lo a query sees itself at residue 0 */
  m.residue = (h >> 12) % m.stride;
  m.sinks++;
  return m;
}

static inline uint32_t probe_tile(uint32_t seed, uint32_t layer, uint32_t head, int64_t qtile, int64_t tile)
{
  uint32_t h = probe_mix(seed, qtile * 64 + tile, layer * 16 + head, 12);
  return tile == qtile ? h % 3 : h % 4; /* TN_TILE_*, or no tile */
}

/* Bit b: the query sees key 64 tile + b. The query's own key is always seen. */
static inline uint64_t probe_bits(uint32_t seed, uint32_t layer, uint32_t head, int64_t query, int64_t tile)
{
  uint64_t bits = (uint64_t)probe_mix(seed, query * 64 + tile, layer * 16 + head, 13) << 32;
  bits |= probe_mix(seed, query * 64 + tile, layer * 16 + head, 14);
  return query / 64 == tile ? bits | 1ull << query % 64 : bits;
}

/* Near enough to a normal deviate: the sum of four uniforms. */
static inline float probe_feature(uint32_t seed, uint32_t index)
{
  float sum = 0;
  for (uint32_t i = 0; i < 4; i++) sum += (float)(probe_mix(seed, index, i, 15) % 4096) / 4096;
  return (sum - 2) * 1.7f;
}

#endif
