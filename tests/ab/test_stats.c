/* stats: against values worked out by hand or by an independent formula. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ab/stats.h"

static bool near(double a, double b, double eps) { return fabs(a - b) <= eps; }

static tn_stat paired(const double *d, uint32_t n, double trim)
{
  tn_stat s;
  tn_err err = tn_err_init();
  tn_stat_how how = {.trim = trim, .level = 0.95, .seed = 7};
  cr_assert(tn_stat_paired(d, n, &how, &s, &err) == TN_OK, "%s", err.msg);
  return s;
}

Test(stats, trimmed_mean_by_hand)
{
  double x[] = {9, 1, 2, 3, 100, 4, 5, 6, 7, 8}, est, se;
  tn_stat_trimmed(x, 10, 0.2, &est, &se);
  cr_expect(near(est, 5.5, 1e-12), "3 to 8: %g", est);
  /* winsorized: 3 3 3 4 5 6 7 8 8 8, mean 5.5, squares 42.5 */
  cr_expect(near(se, sqrt(42.5 / 9 / 10) / 0.6, 1e-12), "%g", se);
  double y[] = {1, 2, 3, 6};
  tn_stat_trimmed(y, 4, 0, &est, &se);
  cr_expect(near(est, 3, 1e-12) && near(se, sqrt(14.0 / 3 / 4), 1e-12));
}

/* Sums of the eight sign assignments of 1 2 4: 7 5 3 1 and their negatives. */
Test(stats, sign_flips_by_hand)
{
  double d[] = {1, 2, 4};
  cr_expect(near(paired(d, 3, 0).p, 2.0 / 8, 1e-12));
  d[0] = -1;
  cr_expect(near(paired(d, 3, 0).p, 4.0 / 8, 1e-12));
  d[1] = -2;
  cr_expect(near(paired(d, 3, 0).p, 1, 1e-12));
  double same[10], zero[10] = {0};
  for (int i = 0; i < 10; i++) same[i] = -0.5;
  tn_stat s = paired(same, 10, 0.2);
  cr_expect(near(s.p, 2.0 / 1024, 1e-12) && s.lo == -0.5 && s.hi == -0.5);
  cr_expect(near(paired(zero, 10, 0.2).p, 1, 1e-12));
}

/* Cut at the sixth of ten magnitudes, one wild value does not hide a steady difference. */
Test(stats, outliers_do_not_hide_a_difference)
{
  double d[] = {1, 1.1, 0.9, 1, 1.05, 0.95, 1.02, 0.98, 1, -60};
  cr_expect(paired(d, 10, 0).p > 0.3);
  cr_expect(paired(d, 10, 0.2).p < 0.03, "%g", paired(d, 10, 0.2).p);
  cr_expect(near(paired(d, 10, 0.2).est, 1, 0.05));
}

/* Random flips agree with all of them. */
Test(stats, many_pairs_by_random_flips)
{
  double d[21];
  for (int i = 0; i < 20; i++) d[i] = (i * 7919 % 13) - 4.5;
  d[20] = 0; /* changes no sum */
  tn_stat all = paired(d, 20, 0), some = paired(d, 21, 0);
  cr_expect(all.exact && !some.exact);
  double sd = sqrt(all.p * (1 - all.p) / TN_STAT_FLIPS);
  cr_expect(all.p > 0.001 && all.p < 0.9 && near(all.p, some.p, 4 * sd), "%g %g", all.p, some.p);
}

Test(stats, holm_by_hand)
{
  double p[] = {0.04, NAN, 0.01, 0.03, 0.005};
  cr_assert(tn_stat_holm(p, 5) == TN_OK);
  cr_expect(near(p[4], 0.02, 1e-12) && near(p[2], 0.03, 1e-12) && near(p[3], 0.06, 1e-12));
  cr_expect(near(p[0], 0.06, 1e-12), "never below one before it: %g", p[0]);
  cr_expect(isnan(p[1]));
}

/* Tables of Student's t. */
Test(stats, student)
{
  cr_expect(near(tn_stat_t(0.975, 1), 12.706, 0.001) && near(tn_stat_t(0.975, 2), 4.303, 0.001));
  cr_expect(near(tn_stat_t(0.975, 5), 2.571, 0.002) && near(tn_stat_t(0.975, 11), 2.201, 0.001));
  cr_expect(near(tn_stat_t(0.995, 9), 3.250, 0.002) && near(tn_stat_t(0.8, 11), 0.876, 0.001));
}

Test(stats, too_few_pairs_can_see_nothing)
{
  cr_expect(eq(u32, tn_stat_pairs(0.05, 1), 6));
  cr_expect(eq(u32, tn_stat_pairs(0.05, 10), 9));
  double d[] = {1, 2, 3, 4, 5, 6};
  tn_stat five = paired(d, 5, 0), six = paired(d, 6, 0);
  cr_expect(isinf(tn_stat_seen(&five, 0, 0.05)));
  cr_expect(near(tn_stat_seen(&six, 0, 0.05), (2.571 + 0.920) * six.se, 0.01 * six.se));
  cr_expect(isinf(paired(d, 1, 0).hi) && isnan(paired(d, 0, 0).est));
}

Test(stats, the_seed_alone_decides)
{
  double d[] = {0.3, -0.1, 0.5, 0.2, 0.7, -0.3, 0.4, 0.1, 0.25, 0.6, 0.2};
  tn_stat a = paired(d, 11, 0.2), b = paired(d, 11, 0.2);
  cr_expect(a.hi == b.hi && a.lo == b.lo && a.p == b.p);
  cr_expect(a.lo < a.est && a.est < a.hi && near(a.hi - a.est, a.est - a.lo, 1e-12));
}

Test(stats, more_pairs_than_there_is_room_for)
{
  tn_stat s;
  tn_err err = tn_err_init();
  tn_stat_how how = {.level = 0.95};
  double d[1] = {0};
  cr_expect(tn_stat_paired(d, TN_STAT_MAX + 1, &how, &s, &err) == TN_E_ARG);
}
