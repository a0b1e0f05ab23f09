/* fuzz_gguf: any bytes open as a model or are refused with a message; what opens is read through every accessor. */
#include <stdlib.h>
#include <string.h>

#include "model/gguf.h"

/* Every element by every accessor; the sum keeps the reads from being dropped. */
static uint64_t read_array(const tn_gguf_arr *a)
{
  uint64_t sum = 0;
  for (uint64_t i = 0; i <= a->n; i++) {
    uint64_t u = 0;
    double d = 0;
    bool flag = false;
    tn_str s = {0};
    sum += tn_gguf_arr_u64(a, i, &u) ? u : 0;
    sum += tn_gguf_arr_f64(a, i, &d) && d > 0;
    sum += tn_gguf_arr_bool(a, i, &flag) && flag;
    if (tn_gguf_arr_str(a, i, &s) && s.n) sum += (uint8_t)s.p[0] + (uint8_t)s.p[s.n - 1];
  }
  return sum;
}

static uint64_t read_metadata(const tn_gguf *g)
{
  uint64_t sum = 0;
  for (uint64_t i = 0; i < tn_gguf_n_kv(g); i++) {
    char text[100], key[200];
    tn_gguf_kv_render(g, i, text, sizeof text);
    tn_str k = tn_gguf_kv_key(g, i);
    size_t n = k.n < sizeof key - 1 ? k.n : sizeof key - 1;
    memcpy(key, k.p, n);
    key[n] = '\0';
    uint64_t u = 0;
    double d = 0;
    bool flag = false;
    tn_str s = {0};
    tn_gguf_arr a;
    sum += strlen(text) + (tn_gguf_u64(g, key, &u) ? u : 0);
    sum += tn_gguf_f64(g, key, &d) && d > 0;
    sum += tn_gguf_bool(g, key, &flag) && flag;
    if (tn_gguf_string(g, key, &s) && s.n) sum += (uint8_t)s.p[s.n - 1];
    if (tn_gguf_array(g, key, &a)) sum += read_array(&a);
  }
  return sum;
}

static uint64_t read_tensors(const tn_gguf *g)
{
  uint64_t sum = 0;
  for (uint64_t i = 0; i < tn_gguf_n_tensors(g); i++) {
    const tn_gguf_tensor *t = tn_gguf_tensor_at(g, i);
    sum += t->data[0] + t->data[t->bytes - 1];
  }
  uint8_t id[32];
  tn_gguf_identity(g, id);
  return sum + id[0];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  tn_gguf *g = NULL;
  tn_err err = tn_err_init();
  tn_status st = tn_gguf_open_mem(data, size, "fuzz", &g, &err);
  if ((st == TN_OK) != (g != NULL) || (st != TN_OK && err.msg[0] == '\0')) abort();
  volatile uint64_t sum = 0;
  if (g) sum += read_metadata(g) + read_tensors(g);
  (void)sum;
  tn_gguf_close(g);
  return 0;
}
