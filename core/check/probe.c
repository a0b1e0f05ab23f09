/* probe: see probe.h. A write to a pipe fails with EFAULT where a load would end the process. The raw system call is
 * used so that a sanitizer does not look at the address first. */
#include "check/probe.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE 4096u /* the smallest there is: what is readable is decided by page */

bool tn_probe_open(tn_probe *p) { return pipe2(p->fd, O_CLOEXEC | O_NONBLOCK) == 0; }

void tn_probe_close(tn_probe *p)
{
  close(p->fd[0]);
  close(p->fd[1]);
}

/* One byte; it is taken out of the pipe again. */
static bool readable(const tn_probe *p, uintptr_t at)
{
  char byte;
  if (syscall(SYS_write, p->fd[1], at, 1) != 1) return false;
  return read(p->fd[0], &byte, 1) == 1;
}

bool tn_probe_read(const tn_probe *p, const void *addr, size_t n)
{
  uintptr_t at = (uintptr_t)addr, end;
  if (n == 0) return true;
  if (__builtin_add_overflow(at, n - 1, &end)) return false;
  for (; at<end; at = at> UINTPTR_MAX - PAGE ? end : at + PAGE)
    if (!readable(p, at)) return false;
  return readable(p, end);
}

long tn_probe_string(const tn_probe *p, const char *s, size_t max)
{
  for (size_t n = 0; n < max;) {
    size_t page = PAGE - ((uintptr_t)s + n) % PAGE, step = page < max - n ? page : max - n;
    if (!readable(p, (uintptr_t)s + n)) return -1;
    const char *end = memchr(s + n, '\0', step);
    if (end) return end - s;
    n += step;
  }
  return -2;
}

bool tn_probe_rights(const void *addr, char rights[5])
{
  FILE *f = fopen("/proc/self/maps", "r");
  char line[512];
  bool found = false;
  while (f && !found && fgets(line, sizeof line, f)) {
    unsigned long from, to;
    found = sscanf(line, "%lx-%lx %4s", &from, &to, rights) == 3 && (uintptr_t)addr >= from && (uintptr_t)addr < to;
  }
  if (f) fclose(f);
  return found;
}
