/* fake_backend: a backend that only keeps what weight_load hands it, and can refuse the n-th load. */
#ifndef TN_TESTS_FAKE_BACKEND_H
#define TN_TESTS_FAKE_BACKEND_H

#include <stdbool.h>

#include "plugin_api.h"

#define FAKE_MAX 512

typedef struct fake_weight { /* a deep copy of one tn_weight_src */
  char name[64], key[256];   /* key "": none */
  tn_weight_src src;
  const void *given; /* src.data as it came */
} fake_weight;

typedef struct fake_backend {
  fake_weight w[FAKE_MAX];
  uint32_t n, live, fail_at; /* fail_at: 1 refuses the first load; 0 none */
  bool has_kept;             /* takes weights without data (TN_WF_KEPT), else they are TN_E_STATE */
} fake_backend;

extern const tn_backend_v1 fake_backend_v1;

/* As the calls want it. */
tn_inst *fake_inst(fake_backend *b);

/* The loaded weight of that name, or NULL. */
const fake_weight *fake_find(const fake_backend *b, const char *name);

/* Frees the copies and forgets them. */
void fake_reset(fake_backend *b);

#endif
