/* oom: makes one allocation fail. The tests of this area are linked with malloc, calloc, realloc and free wrapped, in the
 * test and in all that is linked to it statically; a plugin's allocations are the host's. Any thread may allocate, one
 * thread calls these. */
#ifndef TN_TESTS_OOM_H
#define TN_TESTS_OOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The n-th allocation from now fails (1: the next), once. 0: none. */
void oom_arm(uint64_t n);

/* Has it failed? Then disarms. */
bool oom_fired(void);

/* While on, allocations neither fail nor count as calls. */
void oom_pause(bool on);

/* malloc that is counted and never fails: for a library which keeps quiet about its failures, so that what it hands out can
 * be freed with free() and the count is right. */
void *oom_safe(size_t n);

/* Allocations not yet freed. */
int64_t oom_live(void);

/* Calls of malloc, calloc and realloc so far. */
uint64_t oom_calls(void);

#endif
