/* chunked: what it promises, step by step: bounded steps beside running streams, priorities, and that nobody starves. Its plans
 * under random loads are in test_scheduler.c. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "sched_machine.h"

/* While sequences generate, no step has more rows than the budget, and each of them has its token in every step, however
 * long the prompt that arrives. Without a model a row costs the same wherever it stands. */
Test(policy_chunked, bounds_the_gap)
{
  sched_machine m = sched_machine_of("chunked", "budget=24", 512, 8);
  for (uint32_t k = 0; k < 4; k++) sched_add(&m, 1, 300, 0);
  sched_add(&m, 4000, 5, 10);
  sched_step(&m);
  while (!m.j[4].over) {
    int64_t said[4];
    for (uint32_t k = 0; k < 4; k++) said[k] = m.j[k].said;
    sched_step(&m);
    cr_assert(m.rows <= 24, "step %llu: %u rows beside %u streams", (unsigned long long)m.step, m.rows, m.streams);
    for (uint32_t k = 0; k < 4; k++) cr_assert(m.j[k].said == said[k] + 1, "stream %u waited", k);
  }
  cr_expect(eq(u64, m.j[4].first, 10 + 4000 / 20 - 1), "what the streams leave is the prompt's");
  sched_run_all(&m, 1000);
}

/* What n rows from a position on cost, in rows at the beginning. */
static double cost_of(double depth, int64_t at, int64_t n)
{
  double cost = 0;
  for (int64_t i = 0; i < n; i++) cost += 1 + (double)(at + i) / depth;
  return cost;
}

/* The bar: a prompt of 4,000 tokens makes no step cost more than twice what the streams alone cost, counted by a row's
 * position; and it does not stand still. */
static void doubles_at_most(const char *const *sets, const tn_svc_model *model, double depth, uint32_t streams)
{
  sched_machine m = sched_machine_on("chunked", sets, model, 512, 40);
  for (uint32_t k = 0; k < streams; k++) sched_add(&m, 1, 5000, 0);
  sched_add(&m, 4000, 5, 100);
  while (m.step <= 100) sched_step(&m);
  const sched_job *late = &m.j[streams];
  uint64_t n = 0, full = 0;
  for (; !late->said; n++) {
    int64_t read = late->done, said = m.j[0].said;
    double own = 0;
    for (uint32_t k = 0; k < streams; k++) own += cost_of(depth, m.j[k].done, 1);
    sched_step(&m);
    double more = cost_of(depth, read, late->done - read), next = cost_of(depth, late->done, 1);
    cr_assert(m.j[0].said == said + 1 && late->done > read, "step %llu stands still", (unsigned long long)m.step);
    cr_assert(more <= own + 1e-6 || late->done == read + 1, "%u streams: %g beside %g", streams, more, own);
    full += more + next > own;
  }
  cr_expect(full + 1 >= n, "%llu of %llu steps are as full as they may be", (unsigned long long)full,
            (unsigned long long)n);
  plugin_rig_close(m.rig);
}

Test(policy_chunked, a_step_doubles_at_most)
{
  static const char *const given[] = {"depth=512", NULL};
  doubles_at_most(given, NULL, 512, 1);
  doubles_at_most(given, NULL, 512, 8);
  doubles_at_most(given, NULL, 512, 32);
}

/* Without `depth` the model's shape says it: here (576 (18 + 6) 64 + 3 576 1536) / (2 9 64) / 6 = 512. */
Test(policy_chunked, depth_follows_from_the_shape)
{
  tn_model_shape shape = {.struct_size = sizeof shape,
                          .n_layers = 30,
                          .n_heads = 9,
                          .n_kv_heads = 3,
                          .d_model = 576,
                          .d_head = 64,
                          .d_ff = 1536};
  tn_svc_model model = {.struct_size = sizeof model, .shape = &shape};
  doubles_at_most(NULL, &model, 512, 8);
}

/* What may be stretched further is read faster, by as much. */
Test(policy_chunked, stretch)
{
  uint64_t steps[2];
  for (int i = 0; i < 2; i++) {
    sched_machine m = sched_machine_of("chunked", i ? "stretch=5" : "stretch=2", 512, 16);
    for (uint32_t k = 0; k < 10; k++) sched_add(&m, 1, 1000, 0);
    sched_add(&m, 4000, 1, 1);
    while (!m.j[10].over) sched_step(&m);
    steps[i] = m.j[10].first;
    plugin_rig_close(m.rig);
  }
  cr_expect(eq(u64, steps[0], 400));
  cr_expect(eq(u64, steps[1], 100));
}

/* Deep in a text a row costs more than a quarter of what prompts may: the oldest has one in every fourth step, the urgent
 * the others. */
Test(policy_chunked, the_oldest_moves_when_rows_are_dear)
{
  sched_machine m = sched_machine_of("chunked", "depth=100", 512, 16);
  sched_add(&m, 1, 4000, 0);
  sched_add(&m, 1000, 1, 0);
  while (m.j[1].done < 500) sched_step(&m);
  sched_add(&m, 3000, 1, m.step);
  m.j[2].priority = 5;
  int64_t old = m.j[1].done, urgent = 0;
  for (int k = 0; k < 200; k++) sched_step(&m);
  old = m.j[1].done - old, urgent = m.j[2].done;
  cr_expect(old >= 50, "%d rows in 200 steps", (int)old);
  cr_expect(urgent >= 150, "%d rows in 200 steps", (int)urgent);
  plugin_rig_close(m.rig);
}

/* More streams than the budget: prompts have their least share all the same. */
Test(policy_chunked, reads_beside_many_streams)
{
  static const char *const sets[] = {"budget=4", "prompt=8", NULL};
  sched_machine m = sched_machine_on("chunked", sets, NULL, 512, 32);
  for (uint32_t k = 0; k < 20; k++) sched_add(&m, 1, 200, 0);
  sched_add(&m, 80, 5, 3);
  while (!m.j[20].over) {
    sched_step(&m);
    cr_assert(m.rows <= 20 + 8);
  }
  cr_expect(eq(u64, m.j[20].first, 3 + 80 / 8 - 1));
  sched_run_all(&m, 1000);
}

/* Nobody generates: the whole step is the prompt's. */
Test(policy_chunked, reads_at_full_speed_alone)
{
  sched_machine m = sched_machine_of("chunked", "budget=8", 256, 8);
  sched_add(&m, 1000, 1, 0);
  cr_expect(eq(u64, sched_run_all(&m, 100), 4));
}

/* Fewer rows than streams: they take turns. */
Test(policy_chunked, streams_take_turns)
{
  sched_machine m = sched_machine_of("chunked", NULL, 5, 8);
  for (uint32_t k = 0; k < 8; k++) sched_add(&m, 1, 40, 0);
  for (int k = 0; k < 40; k++) sched_step(&m);
  int64_t least = 100, most = 0;
  for (uint32_t k = 0; k < 8; k++) {
    least = m.j[k].said < least ? m.j[k].said : least;
    most = m.j[k].said > most ? m.j[k].said : most;
  }
  cr_expect(least >= 20 && most - least <= 5, "from %d to %d tokens", (int)least, (int)most);
  sched_run_all(&m, 1000);
}

/* The urgent go first: admitted first, and read first. */
Test(policy_chunked, priorities)
{
  sched_machine m = sched_machine_of("chunked", NULL, 64, 4);
  for (uint32_t k = 0; k < 4; k++) sched_add(&m, 100, 50, 0);
  for (uint32_t k = 0; k < 6; k++) {
    sched_add(&m, 100, 5, 1);
    m.j[4 + k].priority = (int32_t)k;
  }
  sched_run_all(&m, 10000);
  for (uint32_t k = 5; k < 10; k++) cr_expect(m.j[k].starts < m.j[k - 1].starts, "%u after %u", k, k - 1);
}

/* While a request is the oldest that waits, at most `overtake` later ones are admitted: with k older ones before it, a
 * request has at most (k + 1) overtake + k admissions before its own. */
Test(policy_chunked, bound_of_overtaking)
{
  uint64_t worst = 0;
  for (uint32_t seed = 1; seed <= 30; seed++) {
    uint32_t rng = seed;
    sched_machine m = sched_machine_of("chunked", "overtake=3", 64, 2);
    for (uint32_t k = 0; k < 60; k++) {
      sched_add(&m, 1 + sched_draw(&rng, 60), 1 + sched_draw(&rng, 10), k / 4);
      m.j[k].priority = k < 8 ? 0 : 1 + (int32_t)sched_draw(&rng, 3);
    }
    sched_run_all(&m, 10000);
    for (uint32_t k = 0; k < 60; k++) {
      uint64_t passed = 0;
      for (uint32_t i = k + 1; i < 60; i++) passed += m.j[i].starts < m.j[k].starts;
      cr_assert(passed <= (k + 1) * 3, "seed %u: %llu passed request %u", seed, (unsigned long long)passed, k);
      worst = k < 8 && passed > worst ? passed : worst;
    }
  }
  cr_expect(worst > 10, "the urgent do pass: %llu", (unsigned long long)worst);
}

/* The oldest prompt has a quarter of the prompt rows, whatever is more urgent. */
Test(policy_chunked, reads_the_oldest_prompt)
{
  sched_machine m = sched_machine_of("chunked", NULL, 64, 60);
  sched_add(&m, 800, 1, 0);
  sched_step(&m); /* 64 of them */
  for (uint32_t k = 0; k < 50; k++) {
    sched_add(&m, 500, 1, 1);
    m.j[1 + k].priority = 5;
  }
  sched_run_all(&m, 10000);
  uint64_t bound = (800 - 64 + 15) / 16;
  cr_expect(m.j[0].first <= 1 + bound, "step %llu", (unsigned long long)m.j[0].first);
  cr_expect(m.j[0].first > 20, "the urgent have the rest: step %llu", (unsigned long long)m.j[0].first);
}
