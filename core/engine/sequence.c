/* sequence: see sequence.h. */
#include "sequence.h"

#include <stdlib.h>
#include <string.h>

static void *dup_array(const void *p, size_t n, size_t size)
{
  void *d = tn_zalloc(n, size);
  if (d && n) memcpy(d, p, n * size);
  return d;
}

static bool own_request(tn_seq *s, const tn_request *r)
{
  s->req = *r;
  s->req.prompt = NULL;
  int32_t *forced = dup_array(r->forced, (size_t)r->n_forced, sizeof *forced);
  int32_t *stop = dup_array(r->stop, r->n_stop, sizeof *stop);
  int32_t *bias_token = dup_array(r->sampling.bias_token, r->sampling.n_bias, sizeof *bias_token);
  float *bias = dup_array(r->sampling.bias, r->sampling.n_bias, sizeof *bias);
  s->req.forced = forced;
  s->req.stop = stop;
  s->req.sampling.bias_token = bias_token;
  s->req.sampling.bias = bias;
  return forced && stop && bias_token && bias;
}

tn_status tn_seq_new(uint64_t id, const tn_request *req, int64_t max_len, tn_seq **out, tn_err *err)
{
  *out = NULL;
  tn_seq *s = tn_zalloc(1, sizeof *s);
  if (s) {
    s->id = id;
    s->state = TN_SEQ_WAITING;
    s->n_prompt = s->n_tok = s->n_given = req->n_prompt;
    if (req->score && !req->n_forced && req->score_from > 0 && req->score_from < req->n_prompt)
      s->n_given = req->score_from;
    s->max_len = max_len;
    s->cap = max_len + 1;
    s->next_evict = TN_POS_INF;
    s->tokens = tn_zalloc((size_t)s->cap, sizeof *s->tokens);
    s->node_token = tn_zalloc(TN_MAX_NODES, sizeof *s->node_token);
    s->node_parent = tn_zalloc(TN_MAX_NODES, sizeof *s->node_parent);
    s->node_q = tn_zalloc(TN_MAX_NODES, sizeof *s->node_q);
  }
  if (!s || !own_request(s, req) || !s->tokens || !s->node_token || !s->node_parent || !s->node_q) {
    tn_seq_free(s);
    return tn_fail(err, TN_E_NOMEM, "no memory for a sequence of %lld tokens", (long long)max_len);
  }
  memcpy(s->tokens, req->prompt, (size_t)req->n_prompt * sizeof *s->tokens);
  *out = s;
  return TN_OK;
}

void tn_seq_free(tn_seq *s)
{
  if (!s) return;
  free((void *)(uintptr_t)s->req.forced);
  free((void *)(uintptr_t)s->req.stop);
  free((void *)(uintptr_t)s->req.sampling.bias_token);
  free((void *)(uintptr_t)s->req.sampling.bias);
  free(s->tokens);
  free(s->node_token);
  free(s->node_parent);
  free(s->node_q);
  free(s->swapped);
  free(s);
}

tn_status tn_seq_push(tn_seq *s, int32_t token)
{
  if (s->n_tok >= s->cap) return TN_E_STATE;
  s->tokens[s->n_tok++] = token;
  return TN_OK;
}

static int64_t **arrays_new(uint32_t n, size_t cap, bool wanted)
{
  int64_t **a = tn_zalloc(n, sizeof *a);
  for (uint32_t i = 0; a && wanted && i < n; i++) {
    a[i] = tn_zalloc(cap, sizeof **a);
    if (a[i]) continue;
    for (uint32_t k = 0; k < i; k++) free(a[k]);
    free(a);
    return NULL;
  }
  return a;
}

static void arrays_free(int64_t **a, uint32_t n)
{
  for (uint32_t i = 0; a && i < n; i++) free(a[i]);
  free(a);
}

tn_signals *tn_signals_new(uint32_t n_groups, size_t cap, bool attn, bool window, bool knorm)
{
  tn_signals *s = tn_zalloc(1, sizeof *s);
  if (!s) return NULL;
  s->attn = arrays_new(n_groups, cap, attn);
  s->win = arrays_new(n_groups, cap, window);
  s->knorm = arrays_new(n_groups, cap, knorm);
  if (!s->attn || !s->win || !s->knorm) {
    tn_signals_free(s, n_groups);
    return NULL;
  }
  int64_t **norms = knorm ? s->knorm : NULL;
  s->total =
      (tn_signal){sizeof(tn_signal), n_groups, (int64_t *const *)(attn ? s->attn : NULL), (int64_t *const *)norms};
  s->window =
      (tn_signal){sizeof(tn_signal), n_groups, (int64_t *const *)(window ? s->win : NULL), (int64_t *const *)norms};
  return s;
}

void tn_signals_clear(tn_signals *s, uint32_t n_groups, size_t cap)
{
  int64_t **const arrays[] = {s->attn, s->win, s->knorm};
  for (size_t i = 0; i < TN_ARRAY_LEN(arrays); i++)
    for (uint32_t g = 0; g < n_groups; g++)
      if (arrays[i][g]) memset(arrays[i][g], 0, cap * sizeof **arrays[i]);
}

void tn_signals_free(tn_signals *s, uint32_t n_groups)
{
  if (!s) return;
  arrays_free(s->attn, n_groups);
  arrays_free(s->win, n_groups);
  arrays_free(s->knorm, n_groups);
  free(s);
}
