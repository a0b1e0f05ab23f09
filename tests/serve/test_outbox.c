/* An outbox alone: what goes in comes out, comments only into streams that are silent, nothing behind the end. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>
#include <unistd.h>

#include "serve/outbox.h"

static void suspend(void *ctx) { ++*(int *)ctx; }

/* What can be read now, in small pieces. */
static const char *read_now(tn_outbox *o, int *waits)
{
  static char all[256];
  size_t n = 0;
  long k;
  while ((k = tn_outbox_read(o, all + n, 5, suspend, waits)) > 0) n += (size_t)k;
  all[n] = '\0';
  return all;
}

Test(outbox, keeps_silent_streams_alive)
{
  tn_outbox *o = tn_outbox_new();
  int waits = 0;
  usleep(2000);
  tn_outbox_keep_alive(o, 1000000);
  cr_expect(eq(str, (char *)read_now(o, &waits), ""), "it has not begun");
  tn_outbox_begin(o, 200);
  tn_outbox_put(o, "data: x\n\n", 9);
  tn_outbox_keep_alive(o, 1000000000000u);
  cr_expect(eq(str, (char *)read_now(o, &waits), "data: x\n\n"), "it is not silent");
  usleep(2000);
  tn_outbox_keep_alive(o, 1000000);
  tn_outbox_keep_alive(o, 1000000000000u);
  cr_expect(eq(str, (char *)read_now(o, &waits), ": keep-alive\n\n"));
  usleep(2000);
  tn_outbox_end(o);
  tn_outbox_keep_alive(o, 1000000);
  cr_expect(eq(str, (char *)read_now(o, &waits), ""), "it is over");
  cr_expect(eq(int, waits, 3), "every reader but the last was told to wait");
  tn_outbox_drop(o);
}

Test(outbox, refusals_get_no_comments)
{
  tn_outbox *o = tn_outbox_new();
  int waits = 0;
  tn_outbox_begin(o, 503);
  usleep(2000);
  tn_outbox_keep_alive(o, 1000000);
  cr_expect(eq(str, (char *)read_now(o, &waits), ""));
  tn_outbox_drop(o);
}

Test(outbox, nothing_comes_behind_the_end)
{
  tn_outbox *o = tn_outbox_new();
  int waits = 0;
  tn_outbox_begin(o, 200);
  cr_expect(tn_outbox_put(o, "a", 1));
  tn_outbox_end(o);
  cr_expect(tn_outbox_put(o, "b", 1) == false);
  cr_expect(eq(str, (char *)read_now(o, &waits), "a"));
  char byte;
  cr_expect(tn_outbox_read(o, &byte, 1, suspend, &waits) == TN_OUTBOX_END);
  cr_expect(tn_outbox_left(o) == false, "nobody has left");
  tn_outbox_leave(o);
  cr_expect(tn_outbox_left(o));
  tn_outbox_drop(o);
}
