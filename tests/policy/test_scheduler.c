/* Schedulers on a machine of the test's own: legal plans under random arrivals, order of arrival, nobody starves, and the
 * number of steps against an exact count. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>

#include "sched_machine.h"

static const char *const names[] = {"continuous", "static_batch", "chunked"};
enum { NAMES = 3 };

/* ---------------------------------------------------------------- any load */

Test(policy_scheduler, random_arrivals_end_within_bounds)
{
  for (int i = 0; i < NAMES; i++)
    for (uint32_t seed = 1; seed <= 60; seed++) {
      uint32_t rng = seed;
      sched_machine m = sched_machine_of(names[i], NULL, 1 + sched_draw(&rng, 60), 1 + sched_draw(&rng, 12));
      if (seed % 3 == 0) m.drafted = sched_draw(&rng, 9);
      if (seed % 2) m.capacity = 256 + 16 * sched_draw(&rng, 30);
      uint64_t arrives = 0, work = 0;
      for (int k = 0; k < 32; k++) {
        sched_add(&m, 1 + sched_draw(&rng, 120), 1 + sched_draw(&rng, 40), arrives += sched_draw(&rng, 6));
        work += (uint64_t)(m.j[k].prompt + m.j[k].generate);
      }
      sched_run_all(&m, arrives + 20 * work);
    }
}

/* Requests of one size come out in the order in which they came in, also when pages run out. */
Test(policy_scheduler, first_come_first_served)
{
  for (int i = 0; i < NAMES; i++)
    for (uint32_t seed = 1; seed <= 20; seed++) {
      uint32_t rng = seed;
      sched_machine m = sched_machine_of(names[i], NULL, 24, 6);
      if (seed % 2) m.capacity = 320;
      uint64_t arrives = 0;
      for (uint32_t k = 0; k < 32; k++) sched_add(&m, 30, 20, arrives += sched_draw(&rng, 6));
      sched_run_all(&m, 100000);
      for (uint32_t k = 1; k < 32; k++) {
        cr_assert(m.j[k].first >= m.j[k - 1].first, "%s, seed %u: %u before %u", names[i], seed, k, k - 1);
        cr_assert(m.j[k].last >= m.j[k - 1].last, "%s, seed %u: %u ends before %u", names[i], seed, k, k - 1);
      }
    }
}

/* A large request that does not fit beside others is not passed by small ones for ever. */
Test(policy_scheduler, a_large_request_gets_its_turn)
{
  sched_machine m = sched_machine_of("continuous", NULL, 32, 8);
  m.capacity = 400;
  sched_add(&m, 100, 30, 0);
  sched_add(&m, 340, 10, 1);
  for (uint32_t k = 0; k < 40; k++) sched_add(&m, 20, 10, 2 + k);
  sched_run_all(&m, 5000);
  for (uint32_t k = 2; k < m.n; k++) cr_expect(m.j[k].first >= m.j[1].first, "%u overtook", k);
}

Test(policy_scheduler, pages_run_out)
{
  sched_machine m = sched_machine_of("continuous", "reserve=0", 64, 8);
  m.capacity = 256;
  for (uint32_t k = 0; k < 8; k++) sched_add(&m, 20, 60, 0);
  sched_run_all(&m, 5000);
  cr_expect(m.preempted > 3, "%llu", (unsigned long long)m.preempted);
  for (uint32_t k = 0; k < 8; k++) cr_expect(m.j[k].said == 60, "no token is lost or said twice");
}

/* What is admitted in one step is counted together: two requests that only fit one by one do not start at once. */
Test(policy_scheduler, admission_counts_what_it_admits)
{
  static sched_view w;
  uint32_t run[SCHED_MAX], tokens[SCHED_MAX], victims[SCHED_MAX], how[SCHED_MAX];
  sched_machine m = sched_machine_of("continuous", "reserve=0", 512, 8);
  m.capacity = 320;
  sched_add(&m, 60, 5, 0);
  sched_step(&m);
  for (uint32_t k = 0; k < 6; k++) sched_add(&m, 60, 5, 1);
  sched_look(&m, &w); /* 256 entries are free; each new one needs 60 and a page */
  tn_sched_plan p = {.struct_size = sizeof p, .run = run, .tokens = tokens, .preempt = victims, .how = how};
  cr_assert(m.v->plan(m.rig->inst, &w.v, &p) == TN_OK);
  cr_expect(eq(u32, p.n_run, 1 + 256 / 76));
  plugin_rig_close(m.rig);
}

/* Decoding sequences go on while a long prompt is read. */
Test(policy_scheduler, continuous_decodes_beside_a_prompt)
{
  sched_machine m = sched_machine_of("continuous", NULL, 8, 8);
  sched_add(&m, 1, 50, 0);
  sched_add(&m, 200, 1, 3);
  sched_run_all(&m, 1000);
  cr_expect(eq(u64, m.j[0].last, 49), "a token in every step");
  cr_expect(eq(u64, m.j[1].first, 3 + (200 + 6) / 7 - 1), "7 rows a step are left for the prompt");
}

/* Each decoding sequence gets its row before anybody gets drafted ones. */
Test(policy_scheduler, continuous_shares_rows_among_drafts)
{
  sched_machine m = sched_machine_of("continuous", NULL, 10, 8);
  m.drafted = 7;
  for (uint32_t k = 0; k < 6; k++) sched_add(&m, 1, 30, 0);
  sched_run_all(&m, 1000);
  for (uint32_t k = 0; k < 6; k++) cr_expect(eq(u64, m.j[k].last, 29));
}

/* ---------------------------------------------------------------- steps, counted */

static uint64_t list_makespan(const sched_machine *m, uint32_t slots)
{
  uint64_t ends[SCHED_MAX] = {0}, last = 0;
  for (uint32_t i = 0; i < m->n; i++) { /* the slot that is free first, in order of arrival */
    uint32_t best = 0;
    for (uint32_t s = 1; s < slots; s++) best = ends[s] < ends[best] ? s : best;
    ends[best] += (uint64_t)m->j[i].generate;
    last = ends[best] > last ? ends[best] : last;
  }
  return last;
}

static uint64_t sum_of_longest(const sched_machine *m, uint32_t batch)
{
  uint64_t sum = 0;
  for (uint32_t i = 0; i < m->n; i += batch) {
    int64_t longest = 0;
    for (uint32_t k = i; k < i + batch && k < m->n; k++)
      longest = m->j[k].generate > longest ? m->j[k].generate : longest;
    sum += (uint64_t)longest;
  }
  return sum;
}

/* Prompts of one token, a step a token: static batching needs the sum of its batches' longest, continuous batching what
 * list scheduling needs. */
Test(policy_scheduler, steps_are_what_theory_says)
{
  uint64_t saved = 0;
  for (uint32_t seed = 1; seed <= 40; seed++) {
    uint32_t rng = seed, slots = 1 + sched_draw(&rng, 8);
    char batch[32];
    snprintf(batch, sizeof batch, "batch=%u", slots);
    sched_machine a = sched_machine_of("continuous", NULL, 512, slots),
                  b = sched_machine_of("static_batch", batch, 512, 64);
    for (uint32_t k = 0; k < 30; k++) {
      sched_add(&a, 1, 1 + sched_draw(&rng, 50), 0);
      sched_add(&b, 1, a.j[k].generate, 0);
    }
    uint64_t want_a = list_makespan(&a, slots), want_b = sum_of_longest(&b, slots);
    uint64_t is_a = sched_run_all(&a, 10000), is_b = sched_run_all(&b, 10000);
    cr_assert(eq(u64, is_a, want_a), "seed %u, %u slots", seed, slots);
    cr_assert(eq(u64, is_b, want_b), "seed %u, batches of %u", seed, slots);
    saved += is_b - is_a;
  }
  cr_expect(saved > 1000, "%llu", (unsigned long long)saved);
}

/* With one slot or one sequence both are the same: token after token. */
Test(policy_scheduler, one_at_a_time)
{
  for (int i = 0; i < NAMES; i++) {
    sched_machine m = sched_machine_of(names[i], NULL, 4, 1);
    sched_add(&m, 10, 5, 0);
    sched_add(&m, 3, 2, 0);
    cr_expect(eq(u64, sched_run_all(&m, 100), (3 + 4) + (1 + 1)), "%s", names[i]);
  }
}
