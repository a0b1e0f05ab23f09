/* oom: see oom.h. */
#include "oom.h"

#include <stdatomic.h>

static atomic_ullong left;
static atomic_bool fired, paused;
static atomic_llong live;
static atomic_ullong calls;

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void __real_free(void *p);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void __wrap_free(void *p);

static bool fails(void)
{
  if (paused) return false;
  calls++;
  unsigned long long n = atomic_load(&left);
  while (n > 0 && !atomic_compare_exchange_weak(&left, &n, n - 1)) continue;
  if (n == 1) atomic_store(&fired, true);
  return n == 1;
}

static void *counted(void *p)
{
  live += p != NULL;
  return p;
}

void *oom_safe(size_t n) { return counted(__real_malloc(n)); }

void *__wrap_malloc(size_t n) { return fails() ? NULL : counted(__real_malloc(n)); }
void *__wrap_calloc(size_t n, size_t size) { return fails() ? NULL : counted(__real_calloc(n, size)); }

void *__wrap_realloc(void *p, size_t n)
{
  if (fails()) return NULL;
  void *q = __real_realloc(p, n);
  live += q && !p;
  return q;
}

void __wrap_free(void *p)
{
  live -= p != NULL;
  __real_free(p);
}

void oom_pause(bool on) { paused = on; }

void oom_arm(uint64_t n)
{
  left = n;
  fired = false;
}

bool oom_fired(void)
{
  left = 0;
  return fired;
}

int64_t oom_live(void) { return live; }

uint64_t oom_calls(void) { return calls; }
