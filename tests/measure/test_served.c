/* The figures of a load, on requests that can be worked out by hand. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>

#include "measure/served.h"

#define MS 1000000u

static bool near(double a, double b) { return fabs(a - b) <= 1e-6 * (1 + fabs(b)); }

/* Request 0: arrives at 0 ms, pieces at 100, 150, 250 (of 2 tokens). Request 1: arrives at 50, its only token at 90.
 * Request 2 fails, request 3 is left with one token. */
static tn_serving by_hand(void)
{
  tn_serving s;
  tn_err err = tn_err_init();
  cr_assert(tn_serving_new(&s, 4, &err) == TN_OK);
  s.start_ns = 1000 * (uint64_t)MS;
  s.end_ns = 3000 * (uint64_t)MS;
  for (size_t i = 0; i < 4; i++) s.r[i] = (tn_served){.arrival_ns = s.start_ns + 50 * MS * i, .n_prompt = 10};
  tn_serving_piece(&s, 0, 1, s.start_ns + 100 * MS);
  tn_serving_piece(&s, 0, 1, s.start_ns + 150 * MS);
  tn_serving_piece(&s, 0, 2, s.start_ns + 250 * MS);
  tn_serving_piece(&s, 1, 1, s.start_ns + 90 * MS);
  tn_serving_piece(&s, 3, 1, s.start_ns + 1999 * MS);
  s.r[0].n_cached = 4;
  tn_serving_done(&s, 0);
  tn_serving_done(&s, 1);
  tn_serving_fail(&s, 2, "no room");
  return s;
}

Test(measure_served, by_hand)
{
  tn_serving s = by_hand();
  tn_serving_figures f;
  tn_err err = tn_err_init();
  cr_assert(tn_serving_sum(&s, 95, 60, &f, &err) == TN_OK);
  cr_assert(f.completed == 2 && f.failed == 1 && f.left == 1 && f.n_prompt == 20 && f.n_new == 5 && f.n_cached == 4);
  cr_assert(near(f.seconds, 2) && near(f.request_rate, 1) && near(f.output_rate, 2.5) && near(f.total_rate, 12.5));
  cr_assert(near(f.goodput, 0.5), "%g: request 0 took 100 ms to its first token", f.goodput);
  cr_assert(near(f.peak_output_rate, 5) && f.peak_concurrent == 2);
  cr_assert(near(f.ttft.mean, 70) && near(f.ttft.median, 70) && near(f.ttft.sd, 30) && near(f.ttft.p99, 99.4));
  cr_assert(near(f.tpot.mean, 50) && near(f.tpot.sd, 0), "150 ms for 3 tokens behind the first");
  cr_assert(near(f.itl.mean, 75) && near(f.itl.median, 75) && near(f.itl.p99, 99.5));
  cr_assert(near(f.e2el.mean, 145) && near(f.e2el.p99, 40 + 0.99 * 210));
  cr_assert(eq(str, s.failed.msg, "no room"));
  cr_assert(tn_serving_sum(&s, 0, 0, &f, &err) == TN_OK && near(f.goodput, 1));
  cr_assert(tn_serving_sum(&s, 0, 49, &f, &err) == TN_OK && near(f.goodput, 0.5), "request 1 has no gaps");
  tn_serving_release(&s);
}

Test(measure_served, nothing)
{
  tn_serving s;
  tn_serving_figures f;
  tn_err err = tn_err_init();
  cr_assert(tn_serving_new(&s, 3, &err) == TN_OK);
  cr_assert(tn_serving_sum(&s, 0, 0, &f, &err) == TN_OK);
  cr_assert(f.left == 3 && f.completed == 0 && f.request_rate == 0 && f.ttft.p99 == 0 && f.peak_concurrent == 0);
  tn_serving_release(&s);
}

/* Who leaves as another arrives is not there with it. */
Test(measure_served, at_once)
{
  tn_serving s;
  tn_serving_figures f;
  tn_err err = tn_err_init();
  cr_assert(tn_serving_new(&s, 3, &err) == TN_OK);
  for (size_t i = 0; i < 3; i++) {
    s.r[i].arrival_ns = 10 * MS * i;
    tn_serving_piece(&s, i, 1, 10 * MS * (i + 1));
    tn_serving_done(&s, i);
  }
  cr_assert(tn_serving_sum(&s, 0, 0, &f, &err) == TN_OK && f.peak_concurrent == 1, "%llu",
            (unsigned long long)f.peak_concurrent);
  tn_serving_release(&s);
}
