/* replay_draw: what a trace's requests are made of. See replay.h. */
#include "host/rng.h"
#include "measure/replay.h"

void tn_replay_tokens(uint64_t seed, size_t i, uint32_t n_vocab, int32_t *out, int64_t n)
{
  uint32_t word[4];
  for (int64_t k = 0; k < n; k++) {
    uint64_t block = (uint64_t)k / 4;
    uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)i, (uint32_t)((uint64_t)i >> 32)};
    if (k % 4 == 0) tn_philox(seed, counter, word);
    out[k] = (int32_t)((uint64_t)word[k % 4] * n_vocab >> 32);
  }
}

static int64_t length_of(const tn_replay_cfg *cfg, size_t i)
{
  const tn_trace_request *r = &cfg->trace->r[i];
  if (r->text) return r->n_new > 0 ? r->n_new : cfg->usual_new;
  return r->n_new > 0 ? r->n_new : 1; /* an answer of no tokens: the first token is its end */
}

int64_t tn_replay_asks(const tn_replay_cfg *cfg, size_t i)
{
  int64_t n = length_of(cfg, i);
  return n < cfg->most_new ? cfg->most_new : n;
}

int64_t tn_replay_goal(const tn_replay_cfg *cfg, size_t i)
{
  const tn_trace_request *r = &cfg->trace->r[i];
  return r->text && r->n_new == 0 ? INT64_MAX : length_of(cfg, i);
}

uint64_t tn_replay_arrival(const tn_replay_cfg *cfg, size_t i)
{
  return (uint64_t)((double)cfg->trace->r[i].at_ns / cfg->speed);
}

int64_t tn_replay_ctx(const tn_replay_cfg *cfg)
{
  int64_t most = 0;
  for (size_t i = 0; i < cfg->trace->n; i++) {
    const tn_trace_request *r = &cfg->trace->r[i];
    if (r->text && !r->tokens) return 0;
    int64_t n = (r->n_prompt > 0 ? r->n_prompt : 1) + tn_replay_asks(cfg, i);
    if (n > most) most = n;
  }
  return most;
}
