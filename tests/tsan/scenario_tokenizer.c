/* Many threads on one tokenizer: every thread gets the ids that a lone one gets. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer/tokenizer.h"

enum { THREADS = 4, ROUNDS = 20 };

typedef struct worker {
  const tn_tokenizer *t;
  const int32_t *want;
  size_t n_want;
  int faults;
} worker;

static const char text[] = "The quick  brown fox's 12345 \xE4\xBD\xA0\xE5\xA5\xBD \xFF jumps!\n\n";

static void *run(void *arg)
{
  worker *w = arg;
  for (int i = 0; i < ROUNDS; i++) {
    int32_t *ids;
    char *back;
    size_t n, n_back;
    if (tn_tokenize(w->t, text, sizeof text - 1, 0, &ids, &n, NULL) != TN_OK) {
      w->faults++;
      continue;
    }
    w->faults += n != w->n_want || memcmp(ids, w->want, n * sizeof *ids) != 0;
    w->faults += tn_detokenize(w->t, ids, n, 0, &back, &n_back, NULL) != TN_OK;
    free(back);
    free(ids);
  }
  return NULL;
}

/* Faults of one vocabulary. */
static int check(const char *path)
{
  tn_gguf *g;
  tn_tokenizer *t;
  int32_t *want;
  size_t n_want;
  tn_err err = tn_err_init();
  if (tn_gguf_open(path, &g, &err) != TN_OK || tn_tokenizer_load(g, &t, &err) != TN_OK ||
      tn_tokenize(t, text, sizeof text - 1, 0, &want, &n_want, &err) != TN_OK) {
    fprintf(stderr, "%s\n", err.msg);
    return 1;
  }
  pthread_t threads[THREADS];
  worker workers[THREADS];
  int faults = 0;
  for (int i = 0; i < THREADS; i++) {
    workers[i] = (worker){.t = t, .want = want, .n_want = n_want};
    if (pthread_create(&threads[i], NULL, run, &workers[i]) != 0) return 1;
  }
  for (int i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
    faults += workers[i].faults;
  }
  free(want);
  tn_tokenizer_free(t);
  tn_gguf_close(g);
  return faults;
}

int main(void)
{
  int faults = check(TN_SOURCE_DIR "/tests/data/tokenizer/gpt-2.gguf") +
               check(TN_SOURCE_DIR "/tests/data/tokenizer/llama-spm.gguf") +
               check(TN_SOURCE_DIR "/tests/data/tokenizer/unigram.gguf");
  if (faults) fprintf(stderr, "%d faults\n", faults);
  return faults != 0;
}
