/* The compositions of one `tenon bench`: every combination of the alternatives, the last setting changing fastest. */
#include "cli/bench_sweep.h"

#include <criterion/criterion.h>
#include <string.h>

Test(cli_bench_sweep, without_alternatives_there_is_one)
{
  tn_engine_args a = {.conf = {"a.ini"}, .n_conf = 1, .sets = {"engine.threads=2"}, .n_sets = 1}, out;
  char variant[128];
  cr_assert_eq(tn_bench_sweep_n(&a), 1);
  cr_assert(tn_bench_sweep_at(&a, 0, &out, variant));
  cr_expect_str_eq(out.conf[0], "a.ini");
  cr_expect_str_eq(out.sets[0], "engine.threads=2");
  cr_expect_str_eq(variant, "");
  tn_engine_args_release(&out);
}

Test(cli_bench_sweep, every_combination_once)
{
  static const char *const want[] = {"compose.kv=", "compose.kv=b", "compose.kv=c"};
  tn_engine_args a = {.conf = {"x.ini,y.ini"}, .n_conf = 1, .sets = {"s.t={1,2}", "compose.kv=,b,c"}, .n_sets = 2};
  char variant[128], expected[128];
  cr_assert_eq(tn_bench_sweep_n(&a), 6);
  for (uint32_t k = 0; k < 6; k++) {
    tn_engine_args out;
    cr_assert(tn_bench_sweep_at(&a, k, &out, variant));
    cr_expect_str_eq(out.conf[0], k < 3 ? "x.ini" : "y.ini");
    cr_expect_str_eq(out.sets[0], "s.t=1,2");
    cr_expect_str_eq(out.sets[1], want[k % 3]);
    snprintf(expected, sizeof expected, "%s %s", out.sets[1], out.conf[0]);
    cr_expect_str_eq(variant, expected);
    tn_engine_args_release(&out);
  }
}

Test(cli_bench_sweep, what_other_options_stand_for_has_no_alternatives)
{
  tn_engine_args a = {.sets = {"engine.ctx=1,2"}, .from = {"-c 1,2"}, .n_sets = 1};
  cr_expect_eq(tn_bench_sweep_n(&a), 1);
}
