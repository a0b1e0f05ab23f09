/* level2_ask: what a plugin answers when it is asked again, from several threads, and for extensions. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "check/level2.h"
#include "config/param.h"
#include "host/instance.h"
#include "loader/loader_int.h"
#include "sha256.h"

#define N_THREADS 8

/* ---- the same answer */

static bool hash_object(void *ctx, const char *what, const void *p, size_t n)
{
  tn_sha256_update(ctx, what, strlen(what));
  tn_sha256_update(ctx, p, n);
  return true;
}

static void hash_string(void *ctx, const char *what, const char *s)
{
  tn_sha256_update(ctx, what, strlen(what));
  tn_sha256_update(ctx, s, strlen(s) + 1);
}

/* Digest of everything that a module points to. */
static void digest(const tn_module *m, uint8_t out[32])
{
  tn_sha256 hash;
  tn_sha256_init(&hash);
  tn_walk(m, &(tn_walker){&hash, hash_object, hash_string, NULL});
  tn_sha256_final(&hash, out);
}

void tn_check_repeat(tn_check *c)
{
  uint8_t first[32], later[32];
  if (!tn_check_readable(c)) return;
  digest(c->module, first);
  for (int i = 0; i < 3; i++) {
    const tn_module *again = NULL;
    tn_err err = tn_err_init();
    if (tn_file_enter(c->path, NULL, NULL, &again, &err) != TN_OK) {
      tn_check_say(c, TN_CHECK_FAIL, "when asked again it refuses: %s", err.msg);
      return;
    }
    digest(again, later);
    if (memcmp(first, later, sizeof first) == 0) continue;
    tn_check_say(c, TN_CHECK_FAIL, "what its module says changed when it was asked again");
    return;
  }
}

typedef struct asker {
  const char *path;
  pthread_barrier_t *start;
  const tn_module *module;
  uint8_t digest[32];
} asker;

static void *ask(void *arg)
{
  asker *a = arg;
  pthread_barrier_wait(a->start);
  if (tn_file_enter(a->path, NULL, NULL, &a->module, NULL) == TN_OK) digest(a->module, a->digest);
  return NULL;
}

void tn_check_threads(tn_check *c)
{
  asker askers[N_THREADS];
  pthread_t threads[N_THREADS];
  pthread_barrier_t start;
  uint8_t first[32];
  if (!tn_check_readable(c)) return;
  digest(c->module, first);
  if (pthread_barrier_init(&start, NULL, N_THREADS) != 0) {
    tn_check_say(c, TN_CHECK_SKIP, "no threads to ask from");
    return;
  }
  for (int i = 0; i < N_THREADS; i++) {
    askers[i] = (asker){.path = c->path, .start = &start};
    if (pthread_create(&threads[i], NULL, ask, &askers[i]) != 0) {
      tn_check_say(c, TN_CHECK_SKIP, "no threads to ask from"); /* those that wait end with this process */
      return;
    }
  }
  uint32_t wrong = 0;
  for (int i = 0; i < N_THREADS; i++) {
    pthread_join(threads[i], NULL);
    wrong += !askers[i].module || memcmp(first, askers[i].digest, sizeof first) != 0;
  }
  pthread_barrier_destroy(&start);
  if (wrong) tn_check_say(c, TN_CHECK_FAIL, "%u of %d threads got another answer", wrong, N_THREADS);
}

/* ---- extensions */

/* Default values of a descriptor's parameters; false, and SKIP said, when one has to be set. */
static bool defaults(tn_check *c, const tn_desc *d, tn_value *values)
{
  for (size_t i = 0; d->params && d->params[i]; i++) {
    tn_err err = tn_err_init();
    if (tn_param_default(d->params[i], &values[i], &err) == TN_OK) continue;
    tn_check_say(c, TN_CHECK_SKIP, "no instance to ask: %s", err.msg);
    return false;
  }
  return true;
}

static void ask_extensions(tn_check *c, const tn_instance *inst)
{
  static const char *const ids[] = {"no.such/1",         "",
                                    "tenon.sequence/1x", "tenon.sequence/1 ",
                                    "tenon.sequence/",   "tenon.kernel/1/2",
                                    "tenon.train/10",    "Tenon.sequence/1"};
  for (size_t i = 0; i < TN_ARRAY_LEN(ids); i++)
    if (inst->desc->ext(inst->inst, ids[i]))
      tn_check_say(c, TN_CHECK_FAIL, "'%s' answers ext(\"%s\"), an id that there is not", inst->desc->id, ids[i]);
}

void tn_check_extensions(tn_check *c)
{
  if (!tn_check_before_rule(c, NULL)) return;
  for (uint32_t i = 0; i < c->module->n_desc; i++) {
    const tn_desc *d = c->module->desc[i];
    size_t n = tn_list_len(d->params);
    tn_value *values = d->ext ? tn_zalloc(n, sizeof *values) : NULL;
    if (!values) continue;
    tn_instance inst = {0};
    tn_err err = tn_err_init();
    const tn_services none = {0};
    if (defaults(c, d, values)) {
      if (tn_instance_new(d, values, &none, &inst, &err) == TN_OK)
        ask_extensions(c, &inst);
      else
        tn_check_say(c, TN_CHECK_SKIP, "no instance to ask: %s", err.msg);
    }
    tn_instance_release(&inst);
    for (size_t k = 0; k < n; k++) tn_value_free(&values[k]);
    free(values);
  }
}
