/* probe: is memory there, and what kind? Asked of the kernel, so that a wild pointer is an answer and not a crash. */
#ifndef TN_CORE_CHECK_PROBE_H
#define TN_CORE_CHECK_PROBE_H

#include "base.h"

/* Opens a probe (a pipe). false: none to be had. Close with tn_probe_close. */
typedef struct tn_probe {
  int fd[2];
} tn_probe;
bool tn_probe_open(tn_probe *p);
void tn_probe_close(tn_probe *p);

/* Can the n bytes at addr be read? */
bool tn_probe_read(const tn_probe *p, const void *addr, size_t n);

/* Length of the string at s, or -1: runs into memory that cannot be read, -2: no NUL within max bytes. */
long tn_probe_string(const tn_probe *p, const char *s, size_t max);

/* The rights of the page that holds addr, as in /proc/self/maps: "r-xp". false: no such page. */
bool tn_probe_rights(const void *addr, char rights[5]);

#endif
