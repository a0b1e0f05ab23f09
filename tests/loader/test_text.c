/* A string that grows. */
#include "loader/text.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

Test(text, grows_clears_and_is_empty_at_first)
{
  tn_text t = {0};
  cr_expect(eq(str, (char *)tn_text_str(&t), ""));
  tn_text_addf(&t, "%d-%s", 12, "ab");
  tn_text_add(&t, "cdef", 2);
  cr_expect(eq(str, (char *)tn_text_str(&t), "12-abcd"));
  cr_expect(eq(sz, t.n, 7));
  for (int i = 0; i < 1000; i++) tn_text_addf(&t, "%03d,", i);
  cr_expect(eq(sz, t.n, 4007));
  cr_expect(eq(str, t.p + 4003, "999,"));
  tn_text_clear(&t);
  cr_expect(eq(str, (char *)tn_text_str(&t), ""));
  tn_text_add(&t, NULL, 0);
  cr_expect(not(t.failed));
  tn_text_release(&t);
  cr_expect(t.p == NULL);
}
