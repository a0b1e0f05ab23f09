/* fuzz_base: any bytes as a file of recorded log-probabilities (llama-perplexity's or compact): header, tokens, and every
 * row compared with a tested one. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "measure/base_file.h"

enum { MAX_VOCAB = 4096, MAX_ROWS = 256 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A refusal is a sentence that names the file. */
static void refused(const tn_err *err, const char *path)
{
  if (!strstr(err->msg, path)) abort();
}

/* What a row gave must be numbers, whatever stands in the file. */
static void check(tn_status st, const tn_kld_token *t, const tn_err *err, const char *path)
{
  if (st != TN_OK)
    refused(err, path);
  else if (!isfinite(t->kld) || !isfinite(t->nll) || !isfinite(t->nll_base) || !isfinite(t->unseen))
    abort();
}

static void rows(tn_base *b, const char *path)
{
  static float row[MAX_VOCAB];
  const tn_base_info *i = tn_base_about(b);
  tn_err err = tn_err_init();
  uint32_t left = MAX_ROWS;
  if (i->n_vocab > MAX_VOCAB) return;
  for (uint32_t v = 0; v < i->n_vocab; v++) row[v] = (float)(v % 13) - 6;
  for (uint32_t c = 0; c < i->n_chunks && left > 0; c++) {
    if (tn_base_chunk(b, c, &err) != TN_OK) abort();
    for (uint32_t pos = i->n_prompt; pos + 1 < i->n_ctx && left > 0; pos++, left--) {
      tn_kld_token t = {0};
      int32_t next = i->tokens[(size_t)c * i->n_ctx + pos + 1];
      if (next < 0 || (uint32_t)next >= i->n_vocab) abort();
      check(tn_base_compare(b, row, next, &t, &err), &t, &err, path);
    }
  }
  if (tn_base_chunk(b, i->n_chunks, &err) != TN_E_ARG) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  char path[64];
  tn_base *b = NULL;
  tn_err err = tn_err_init();
  int fd = memfd_create("base", MFD_CLOEXEC);
  if (fd < 0) return 0;
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  for (size_t at = 0; at < size;) {
    ssize_t n = write(fd, data + at, size - at);
    if (n <= 0) abort();
    at += (size_t)n;
  }
  if (tn_base_open(path, &b, &err) == TN_OK)
    rows(b, path);
  else
    refused(&err, path);
  tn_base_free(b);
  close(fd);
  return 0;
}
