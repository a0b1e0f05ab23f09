/* base_read: recorded laws back from a file. See base_file.h. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base_file_int.h"

struct tn_base {
  FILE *f;
  char *path;
  tn_base_info info;
  int32_t *tokens;
  uint8_t *row; /* [tn_base_row_bytes] */
  float *tail;  /* [n_vocab] compact: the tested row without the recorded tokens */
};

void tn_base_free(tn_base *b)
{
  if (!b) return;
  if (b->f) fclose(b->f);
  free(b->path);
  free(b->tokens);
  free(b->row);
  free(b->tail);
  free(b);
}

const tn_base_info *tn_base_about(const tn_base *b) { return &b->info; }

static tn_status read_bytes(tn_base *b, void *to, size_t n, const char *what, tn_err *err)
{
  if (fread(to, 1, n, b->f) == n) return TN_OK;
  return tn_fail(err, TN_E_IO, "%s: %s cannot be read: %s", b->path, what,
                 ferror(b->f) ? strerror(errno) : "the file ends before");
}

/* Fields in range, and a file of the length that they make. */
static tn_status check_head(tn_base *b, tn_err *err)
{
  const tn_base_info *i = &b->info;
  const uint32_t most = 1u << 24;
  if (i->n_ctx < 4 || i->n_ctx > most)
    return tn_fail(err, TN_E_IO, "%s: n_ctx = %u: must be from 4 to %u", b->path, i->n_ctx, most);
  if (i->n_vocab < 2 || i->n_vocab > most)
    return tn_fail(err, TN_E_IO, "%s: n_vocab = %u: must be from 2 to %u", b->path, i->n_vocab, most);
  if (i->n_chunks < 1 || i->n_chunks > most)
    return tn_fail(err, TN_E_IO, "%s: n_chunks = %u: must be from 1 to %u", b->path, i->n_chunks, most);
  if (i->n_prompt > i->n_ctx - 2)
    return tn_fail(err, TN_E_IO, "%s: n_prompt = %u with n_ctx = %u: no row is scored", b->path, i->n_prompt, i->n_ctx);
  if (i->k > i->n_vocab || i->k > TN_BASE_MAX_K)
    return tn_fail(err, TN_E_IO, "%s: k = %u: must be from 1 to %u and at most n_vocab = %u", b->path, i->k,
                   (uint32_t)TN_BASE_MAX_K, i->n_vocab);
  uint64_t want; /* the factors are at most 2^48 and 2^25 */
  bool fits = !__builtin_mul_overflow(tn_base_rows(i) * i->n_chunks, (uint64_t)tn_base_row_bytes(i), &want) &&
              !__builtin_add_overflow(want, tn_base_head_bytes(i), &want);
  if (fseeko(b->f, 0, SEEK_END) != 0) return tn_fail(err, TN_E_IO, "%s: %s", b->path, strerror(errno));
  uint64_t have = (uint64_t)ftello(b->f);
  if (!fits) want = UINT64_MAX;
  if (have != want)
    return tn_fail(err, TN_E_IO, "%s: has %llu bytes, and %u chunks of %u tokens with %u logits make %llu", b->path,
                   (unsigned long long)have, i->n_chunks, i->n_ctx, i->n_vocab, (unsigned long long)want);
  return TN_OK;
}

static tn_status read_head(tn_base *b, tn_err *err)
{
  char magic[TN_BASE_MAGIC];
  uint32_t w[6];
  tn_base_info *i = &b->info;
  tn_status st = read_bytes(b, magic, sizeof magic, "the first bytes", err);
  if (st != TN_OK) return st;
  bool compact = !memcmp(magic, TN_BASE_COMPACT, sizeof magic);
  if (!compact && memcmp(magic, TN_BASE_LLAMA, sizeof magic) != 0)
    return tn_fail(err, TN_E_IO,
                   "%s: is no record of log-probabilities: its first bytes are neither those of "
                   "llama-perplexity's base nor of a compact one",
                   b->path);
  st = read_bytes(b, w, compact ? 24 : 12, "the header", err);
  if (st != TN_OK) return st;
  *i = compact ? (tn_base_info){.k = w[0], .n_ctx = w[1], .n_prompt = w[2], .n_vocab = w[3], .n_chunks = w[4]}
               : (tn_base_info){.n_ctx = w[0], .n_prompt = w[0] / 2, .n_vocab = w[1], .n_chunks = w[2]};
  if (compact && i->k == 0) return tn_fail(err, TN_E_IO, "%s: k = 0: must be at least 1", b->path);
  return check_head(b, err);
}

static tn_status read_tokens(tn_base *b, tn_err *err)
{
  const tn_base_info *i = &b->info;
  size_t n = (size_t)i->n_ctx * i->n_chunks;
  b->tokens = tn_zalloc(n, sizeof *b->tokens);
  b->row = tn_zalloc(1, tn_base_row_bytes(i));
  b->tail = i->k ? tn_zalloc(i->n_vocab, sizeof *b->tail) : NULL;
  if (!b->tokens || !b->row || (i->k && !b->tail)) return tn_fail(err, TN_E_NOMEM, "%s: no memory for it", b->path);
  if (fseeko(b->f, (off_t)(tn_base_head_bytes(i) - 4 * n), SEEK_SET) != 0)
    return tn_fail(err, TN_E_IO, "%s: %s", b->path, strerror(errno));
  tn_status st = read_bytes(b, b->tokens, n * sizeof *b->tokens, "the tokens", err);
  for (size_t k = 0; st == TN_OK && k < n; k++)
    if (b->tokens[k] < 0 || (uint32_t)b->tokens[k] >= i->n_vocab)
      st = tn_fail(err, TN_E_IO, "%s: token %zu is %d: n_vocab = %u", b->path, k, b->tokens[k], i->n_vocab);
  b->info.tokens = b->tokens;
  return st;
}

tn_status tn_base_open(const char *path, tn_base **out, tn_err *err)
{
  *out = NULL;
  tn_base *b = tn_zalloc(1, sizeof *b);
  if (b) b->path = tn_strdup(path);
  if (!b || !b->path) {
    tn_base_free(b);
    return tn_fail(err, TN_E_NOMEM, "%s: no memory for it", path);
  }
  b->f = fopen(path, "rbe");
  tn_status st = b->f ? TN_OK : tn_fail(err, TN_E_IO, "%s: cannot be opened: %s", path, strerror(errno));
  if (st == TN_OK) st = read_head(b, err);
  if (st == TN_OK) st = read_tokens(b, err);
  if (st == TN_OK) st = tn_base_chunk(b, 0, err);
  if (st != TN_OK) {
    tn_base_free(b);
    return st;
  }
  *out = b;
  return TN_OK;
}

tn_status tn_base_chunk(tn_base *b, uint32_t chunk, tn_err *err)
{
  const tn_base_info *i = &b->info;
  if (chunk >= i->n_chunks)
    return tn_fail(err, TN_E_ARG, "%s: chunk %u is asked for: it has %u", b->path, chunk + 1, i->n_chunks);
  uint64_t at = tn_base_head_bytes(i) + tn_base_rows(i) * tn_base_row_bytes(i) * chunk;
  if (fseeko(b->f, (off_t)at, SEEK_SET) != 0) return tn_fail(err, TN_E_IO, "%s: %s", b->path, strerror(errno));
  return TN_OK;
}

/* ln of the sum of exponentials, and where the largest is. */
static double lse_of(const float *row, uint32_t n, uint32_t *top)
{
  double sum = 0;
  *top = 0;
  for (uint32_t i = 1; i < n; i++)
    if (row[i] > row[*top]) *top = i;
  for (uint32_t i = 0; i < n; i++) sum += exp((double)row[i] - (double)row[*top]);
  return (double)row[*top] + log(sum);
}

static void compare_llama(const tn_base *b, const float *row, double lse, uint32_t top, int32_t next, tn_kld_token *out)
{
  float scale, least;
  memcpy(&scale, b->row, 4);
  memcpy(&least, b->row + 4, 4);
  double sum = 0, best = -INFINITY;
  uint32_t best_at = 0;
  for (uint32_t i = 0; i < b->info.n_vocab; i++) {
    uint16_t v;
    memcpy(&v, b->row + 8 + 2 * (size_t)i, 2);
    double lp = (double)(scale * (float)v + least);
    if (lp > best) best = lp, best_at = i;
    if (lp > -TN_BASE_REACH) sum += exp(lp) * (lp - (double)row[i] + lse);
    if (i == (uint32_t)next) out->nll_base = -lp;
  }
  out->kld = sum;
  out->unseen = 0;
  out->same_top = best_at == top;
}

static double share(double p, double q) { return p > 0 ? p * log(p / q) : 0; }

static tn_status compare_compact(tn_base *b, const float *row, double lse, uint32_t top, tn_kld_token *out, tn_err *err)
{
  uint32_t k = b->info.k, n = b->info.n_vocab;
  float head[2];
  double sum = 0, others = 0, tail_p = 0, tail_q = 0, tail = 0;
  memcpy(head, b->row, sizeof head);
  memcpy(b->tail, row, n * sizeof *row);
  for (uint32_t i = 0; i < k; i++) {
    uint32_t id;
    float lp;
    memcpy(&id, b->row + 8 + 4 * (size_t)i, 4);
    memcpy(&lp, b->row + 8 + 4 * ((size_t)k + i), 4);
    if (id >= n) return tn_fail(err, TN_E_IO, "%s: a row names token %u: n_vocab = %u", b->path, id, n);
    if (isinf(b->tail[id])) return tn_fail(err, TN_E_IO, "%s: a row names token %u twice", b->path, id);
    double lq = (double)row[id] - lse, d = exp((double)lp) * ((double)lp - lq);
    sum += d;
    if (i >= k / 2) tail += d, tail_p += exp((double)lp), tail_q += exp(lq);
    if (i == 0) out->same_top = id == top;
    b->tail[id] = -INFINITY;
  }
  for (uint32_t i = 0; i < n; i++) others += exp((double)b->tail[i] - lse);
  if (!(head[1] >= 0 && head[1] <= 1))
    return tn_fail(err, TN_E_IO, "%s: a row gives all other tokens the probability %g: must be from 0 to 1", b->path,
                   (double)head[1]);
  double rest = (double)head[1], among = tail_p > 0 ? (tail - share(tail_p, tail_q)) / tail_p : 0;
  out->nll_base = -(double)head[0];
  out->kld = sum + share(rest, others);
  out->unseen = k < n && among > 0 ? rest * among : 0;
  return TN_OK;
}

tn_status tn_base_compare(tn_base *b, const float *row, int32_t next, tn_kld_token *out, tn_err *err)
{
  uint32_t top;
  tn_status st = read_bytes(b, b->row, tn_base_row_bytes(&b->info), "a row", err);
  if (st != TN_OK) return st;
  double lse = lse_of(row, b->info.n_vocab, &top);
  out->nll = lse - (double)row[next];
  if (!isfinite(out->nll)) return tn_fail(err, TN_E_INTERNAL, "the tested composition gave a logit that is not finite");
  if (b->info.k)
    st = compare_compact(b, row, lse, top, out, err);
  else
    compare_llama(b, row, lse, top, next, out);
  if (st == TN_OK && !(isfinite(out->kld) && isfinite(out->nll_base) && isfinite(out->unseen)))
    st = tn_fail(err, TN_E_IO, "%s: a row holds a value that is not finite", b->path);
  return st;
}
