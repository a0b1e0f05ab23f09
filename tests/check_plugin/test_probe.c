/* Memory that is there, that is not, and that ends. */
#include "check/probe.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE 4096u

/* Three pages: readable, not readable, readable and writable. */
static char *pages(void)
{
  char *p = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  cr_assert(p != MAP_FAILED);
  memset(p, 'x', PAGE);
  cr_assert(mprotect(p, PAGE, PROT_READ) == 0 && mprotect(p + PAGE, PAGE, PROT_NONE) == 0);
  return p;
}

Test(probe, objects)
{
  char *p = pages();
  tn_probe probe;
  cr_assert(tn_probe_open(&probe));
  cr_expect(tn_probe_read(&probe, p, PAGE));
  cr_expect(tn_probe_read(&probe, p + PAGE - 1, 1));
  cr_expect(not(tn_probe_read(&probe, p + PAGE - 1, 2)), "runs into the next page");
  cr_expect(not(tn_probe_read(&probe, p + PAGE, 1)));
  cr_expect(not(tn_probe_read(&probe, p, 3 * PAGE)), "a hole in the middle");
  cr_expect(tn_probe_read(&probe, p + 2 * PAGE, PAGE));
  cr_expect(tn_probe_read(&probe, NULL, 0));
  cr_expect(not(tn_probe_read(&probe, NULL, 1)));
  cr_expect(not(tn_probe_read(&probe, (void *)(UINTPTR_MAX - 1), 8)), "past the end of all addresses");
  tn_probe_close(&probe);
  munmap(p, 3 * PAGE);
}

Test(probe, strings)
{
  char *p = pages();
  tn_probe probe;
  cr_assert(tn_probe_open(&probe));
  strcpy(p + 2 * PAGE, "abc");
  cr_expect(eq(long, tn_probe_string(&probe, p + 2 * PAGE, 100), 3));
  cr_expect(eq(long, tn_probe_string(&probe, p + 2 * PAGE, 4), 3));
  cr_expect(eq(long, tn_probe_string(&probe, p + 2 * PAGE, 3), -2), "no room for the NUL");
  cr_expect(eq(long, tn_probe_string(&probe, p + PAGE - 10, 100), -1), "no NUL before the page ends");
  cr_expect(eq(long, tn_probe_string(&probe, (char *)16, 100), -1));
  tn_probe_close(&probe);
  munmap(p, 3 * PAGE);
}

Test(probe, rights)
{
  static const int constant = 1;
  char *p = pages(), rights[5];
  cr_expect(tn_probe_rights(p, rights) && strncmp(rights, "r--", 3) == 0);
  cr_expect(tn_probe_rights(p + 2 * PAGE, rights) && strncmp(rights, "rw-", 3) == 0);
  cr_expect(tn_probe_rights(&constant, rights) && rights[1] == '-');
  cr_expect(tn_probe_rights((void *)(uintptr_t)tn_probe_rights, rights) && rights[2] == 'x');
  cr_expect(not(tn_probe_rights((void *)16, rights)));
  munmap(p, 3 * PAGE);
}
