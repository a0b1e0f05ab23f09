/* oom: see oom.h. */
#include "oom.h"

#include <stddef.h>

static uint64_t left;
static bool fired;
static int64_t live;

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
  if (left == 0 || --left > 0) return false;
  fired = true;
  return true;
}

static void *counted(void *p)
{
  live += p != NULL;
  return p;
}

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
