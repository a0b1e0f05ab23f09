/* Plugins opened from two threads: each with a loader of its own, so that both map the same files at once, and both with
 * one loader that they take turns at. Every thread sees the same descriptors, and creates and destroys what needs no
 * options. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "host/instance.h"
#include "loader/loader.h"

enum { THREADS = 2, ROUNDS = 5 };

static const struct {
  uint32_t slot;
  const char *name;
} wanted[] = {{TN_SLOT_BACKEND, "ref"},
              {TN_SLOT_BACKEND, "cpu"},
              {TN_SLOT_MEMORY, "paged"},
              {TN_SLOT_MEMORY, "contiguous"},
              {TN_SLOT_EVICTION, "streaming_llm"},
              {TN_SLOT_QUANTIZER, "int8"},
              {TN_SLOT_DRAFT, "ngram"},
              {TN_SLOT_ATTENTION, "full"},
              {TN_SLOT_POSITION, "rope"},
              {TN_SLOT_SCHEDULER, "static_batch"},
              {TN_SLOT_PARALLEL, "tensor"}};

typedef struct opener {
  tn_loader *shared; /* NULL: its own */
  pthread_mutex_t *turn;
  const tn_desc *desc[TN_ARRAY_LEN(wanted)];
  int faults, used;
} opener;

static int use(const tn_desc *d)
{
  static const tn_services none = {0};
  tn_instance in;
  if (tn_instance_new(d, NULL, &none, &in, NULL) != TN_OK) return 1;
  return tn_instance_release(&in) != 0;
}

static void open_all(opener *o, tn_loader *l)
{
  for (size_t i = 0; i < TN_ARRAY_LEN(wanted); i++) {
    const tn_plugin *p = NULL;
    tn_err err = tn_err_init();
    if (o->shared) pthread_mutex_lock(o->turn);
    tn_status st = tn_loader_open(l, wanted[i].slot, wanted[i].name, NULL, &p, &err);
    if (o->shared) pthread_mutex_unlock(o->turn);
    if (st != TN_OK) {
      fprintf(stderr, "%s\n", err.msg);
      o->faults++;
      continue;
    }
    o->faults += strcmp(p->desc->name, wanted[i].name) != 0 || p->desc->slot != wanted[i].slot;
    o->desc[i] = p->desc;
    if (p->desc->params && p->desc->params[0]) continue;
    o->faults += use(p->desc);
    o->used++;
  }
}

static tn_loader *fresh(void)
{
  const tn_loader_cfg cfg = {.path = "", .lib_dir = TN_BUILD_DIR "/lib/tenon"};
  tn_loader *l = NULL;
  return tn_loader_new(&cfg, &l, NULL) == TN_OK ? l : NULL;
}

static void *run(void *arg)
{
  opener *o = arg;
  for (int round = 0; round < ROUNDS; round++) {
    tn_loader *own = o->shared ? NULL : fresh();
    tn_found_list list = {0};
    if (!o->shared && !own) {
      o->faults++;
      continue;
    }
    open_all(o, own ? own : o->shared);
    if (own && round == 0) o->faults += tn_loader_scan(own, &list, NULL) != TN_OK || list.n < TN_ARRAY_LEN(wanted);
    tn_found_list_free(&list);
    tn_loader_free(own);
  }
  return NULL;
}

static int threads(tn_loader *shared)
{
  pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
  pthread_t thread[THREADS];
  opener o[THREADS];
  int faults = 0;
  for (int i = 0; i < THREADS; i++) {
    o[i] = (opener){.shared = shared, .turn = &turn};
    if (pthread_create(&thread[i], NULL, run, &o[i]) != 0) return 1;
  }
  for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
  for (int i = 0; i < THREADS; i++)
    faults += o[i].faults + (o[i].used == 0) + (memcmp(o[i].desc, o[0].desc, sizeof o[i].desc) != 0);
  return faults;
}

int main(void)
{
  tn_loader *shared = fresh();
  int faults = threads(NULL) + (shared ? threads(shared) : 1);
  if (shared) faults += tn_loader_count(shared) != TN_ARRAY_LEN(wanted);
  tn_loader_free(shared);
  if (faults) fprintf(stderr, "%d faults\n", faults);
  return faults != 0;
}
