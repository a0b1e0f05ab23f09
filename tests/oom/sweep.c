/* sweep: see sweep.h. */
#include "sweep.h"

#include <criterion/criterion.h>
#include <string.h>

#include "oom.h"

void oom_sweep(oom_work work, tn_status done, uint64_t least)
{
  uint64_t n = 0;
  for (bool last = false; !last;) {
    int64_t live = oom_live();
    tn_err err = tn_err_init();
    oom_arm(++n);
    tn_status st = work(&err);
    last = !oom_fired();
    cr_expect(st == (last ? done : TN_E_NOMEM), "allocation %lu: %s: %s", (unsigned long)n, tn_status_name(st),
              err.msg);
    cr_expect(last || strstr(err.msg, "no memory"), "allocation %lu: '%s'", (unsigned long)n, err.msg);
    cr_expect(oom_live() == live, "allocation %lu: %ld stay behind", (unsigned long)n, (long)(oom_live() - live));
  }
  cr_expect(n > least, "only %lu allocations", (unsigned long)n);
}
