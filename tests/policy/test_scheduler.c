/* Schedulers on a machine of the test's own: legal plans under random arrivals, order of arrival, nobody starves, and the
 * number of steps against an exact count. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/plugin_rig.h"

#define MAX 64u

typedef struct job {
  int64_t prompt, generate; /* tokens; the last prompt row gives the first generated token */
  uint64_t arrives;         /* step */
  int64_t done, said;       /* rows run; tokens generated */
  uint32_t state;
  bool over;
  uint64_t first, last; /* steps of its first and last token */
} job;

typedef struct machine {
  plugin_rig *rig;
  const tn_scheduler_v1 *v;
  job j[MAX];
  uint32_t n, max_rows, max_seqs, drafted, page_tokens;
  int64_t capacity; /* entries that the pages hold; 0: no limit */
  uint64_t step, preempted;
} machine;

static machine machine_of(const char *name, const char *set, uint32_t max_rows, uint32_t max_seqs)
{
  const char *const sets[] = {set, NULL};
  machine m = {.rig = plugin_rig_open(TN_SLOT_SCHEDULER, name, sets), .max_rows = max_rows, .max_seqs = max_seqs};
  m.v = m.rig->vtable;
  m.page_tokens = 16;
  return m;
}

static void add(machine *m, int64_t prompt, int64_t generate, uint64_t arrives)
{
  m->j[m->n++] = (job){.prompt = prompt, .generate = generate, .arrives = arrives, .state = TN_SEQ_WAITING};
}

static bool holds(const job *j) { return !j->over && (j->state == TN_SEQ_PREFILL || j->state == TN_SEQ_DECODE); }

static int64_t pages(const machine *m, int64_t entries) { return (entries + m->page_tokens - 1) / m->page_tokens; }

static int64_t free_pages(const machine *m)
{
  int64_t n = m->capacity / m->page_tokens;
  for (uint32_t i = 0; i < m->n; i++)
    if (holds(&m->j[i])) n -= pages(m, m->j[i].done);
  return n;
}

typedef struct view { /* of the jobs that have arrived and are not over */
  tn_sched_view v;
  uint64_t seq[MAX], arrival[MAX], deadline[MAX];
  uint32_t state[MAX], at[MAX];
  int64_t todo[MAX], held[MAX], most[MAX];
  int32_t priority[MAX];
} view;

static void look(const machine *m, view *w)
{
  uint32_t n = 0;
  memset(w, 0, sizeof *w);
  for (uint32_t i = 0; i < m->n; i++) {
    const job *j = &m->j[i];
    if (j->over || j->arrives > m->step) continue;
    int64_t text = j->prompt + j->said;
    w->at[n] = i;
    w->seq[n] = i + 1;
    w->arrival[n] = i;
    w->state[n] = j->state;
    w->todo[n] = text - j->done + (j->state == TN_SEQ_DECODE ? m->drafted : 0);
    w->held[n] = j->state == TN_SEQ_WAITING ? 0 : j->done;
    w->most[n++] = j->prompt + j->generate;
  }
  w->v = (tn_sched_view){.struct_size = sizeof w->v,
                         .n = n,
                         .step = m->step,
                         .max_rows = m->max_rows,
                         .max_seqs = m->max_seqs,
                         .page_tokens = m->page_tokens,
                         .free_tokens = m->capacity ? free_pages(m) * m->page_tokens : TN_POS_INF,
                         .seq = w->seq,
                         .state = w->state,
                         .todo = w->todo,
                         .held = w->held,
                         .most = w->most,
                         .arrival_ns = w->arrival,
                         .deadline_ns = w->deadline,
                         .priority = w->priority};
}

static void preempt(machine *m, job *j, uint32_t how)
{
  cr_assert(holds(j) && (how == TN_PREEMPT_RECOMPUTE || how == TN_PREEMPT_SWAP));
  m->preempted++;
  j->state = how == TN_PREEMPT_SWAP ? TN_SEQ_SWAPPED : TN_SEQ_WAITING;
  if (how == TN_PREEMPT_RECOMPUTE) j->done = 0;
}

/* Room for what the jobs of the plan run, in their order; the plugin says who gives way. Entries count once reserved. */
static void reserve(machine *m, view *w, const tn_sched_plan *p)
{
  int64_t reserved = 0;
  for (uint32_t k = 0; k < p->n_run;) {
    const job *j = &m->j[w->at[p->run[k]]];
    int64_t more = holds(j) ? pages(m, j->done + p->tokens[k]) - pages(m, j->done) : 0;
    if (!m->capacity || more <= free_pages(m) - reserved) {
      reserved += more;
      k++;
      continue;
    }
    uint32_t victim = 99, how = 99;
    cr_assert(m->v->victim(m->rig->inst, &w->v, p->run[k], &victim, &how) == TN_OK);
    cr_assert(victim < w->v.n, "victim %u", victim);
    for (uint32_t i = 0; i < k; i++) /* what it had reserved is free again */
      if (p->run[i] == victim)
        reserved -= pages(m, m->j[w->at[victim]].done + p->tokens[i]) - pages(m, m->j[w->at[victim]].done);
    preempt(m, &m->j[w->at[victim]], how);
    w->state[victim] = m->j[w->at[victim]].state;
  }
}

static void run_job(machine *m, job *j, int64_t rows)
{
  int64_t text = j->prompt + j->said, plain = rows < text - j->done ? rows : text - j->done;
  j->done += plain;
  j->state = TN_SEQ_PREFILL;
  if (j->done < text) return;
  j->state = TN_SEQ_DECODE; /* drafted rows: all refused */
  if (++j->said == 1) j->first = m->step;
  j->last = m->step;
  j->over = j->said == j->generate;
}

/* One step: a plan, checked against the contract, and carried out. */
static void step(machine *m)
{
  static view w;
  uint32_t run[MAX], tokens[MAX], victims[MAX], how[MAX], residents = 0, rows = 0;
  bool planned[MAX] = {false};
  look(m, &w);
  tn_sched_plan p = {.struct_size = sizeof p, .run = run, .tokens = tokens, .preempt = victims, .how = how};
  cr_assert(m->v->plan(m->rig->inst, &w.v, &p) == TN_OK);
  cr_assert(p.n_run <= w.v.n && p.n_preempt == 0);
  cr_assert(p.n_run > 0 || w.v.n == 0, "step %llu: nobody runs of %u", (unsigned long long)m->step, w.v.n);
  for (uint32_t i = 0; i < w.v.n; i++) residents += holds(&m->j[w.at[i]]);
  for (uint32_t k = 0; k < p.n_run; k++) {
    cr_assert(run[k] < w.v.n && !planned[run[k]], "entry %u: sequence %u", k, run[k]);
    cr_assert(tokens[k] >= 1 && tokens[k] <= w.todo[run[k]], "%u tokens of %d", tokens[k], (int)w.todo[run[k]]);
    planned[run[k]] = true;
    rows += tokens[k];
    residents += !holds(&m->j[w.at[run[k]]]);
  }
  cr_assert(rows <= m->max_rows, "%u rows of %u", rows, m->max_rows);
  cr_assert(residents <= m->max_seqs, "%u sequences of %u", residents, m->max_seqs);
  bool full = false;
  for (uint32_t k = 0; k < p.n_run; k++) { /* as the engine does it: all are admitted, then reserve, then run */
    job *j = &m->j[w.at[run[k]]];
    if (holds(j)) continue;
    full = full || (m->capacity && free_pages(m) < pages(m, j->prompt + j->said));
    if (!full) j->state = w.state[run[k]] = TN_SEQ_PREFILL;
  }
  reserve(m, &w, &p);
  for (uint32_t k = 0; k < p.n_run; k++)
    if (holds(&m->j[w.at[run[k]]])) run_job(m, &m->j[w.at[run[k]]], tokens[k]);
  m->step++;
}

static bool all_over(const machine *m)
{
  for (uint32_t i = 0; i < m->n; i++)
    if (!m->j[i].over) return false;
  return true;
}

/* Steps until everything is over. */
static uint64_t run_all(machine *m, uint64_t most)
{
  while (!all_over(m)) {
    cr_assert(m->step < most, "not over after %llu steps", (unsigned long long)most);
    step(m);
  }
  uint64_t steps = m->step;
  plugin_rig_close(m->rig);
  return steps;
}

static uint32_t draw(uint32_t *x, uint32_t n)
{
  *x = *x * 1664525u + 1013904223u;
  return (uint32_t)(((uint64_t)*x * n) >> 32);
}

static const char *const names[] = {"continuous", "static_batch"};

/* ---------------------------------------------------------------- any load */

Test(policy_scheduler, random_arrivals_end_within_bounds)
{
  for (int i = 0; i < 2; i++)
    for (uint32_t seed = 1; seed <= 60; seed++) {
      uint32_t rng = seed;
      machine m = machine_of(names[i], NULL, 1 + draw(&rng, 60), 1 + draw(&rng, 12));
      if (seed % 3 == 0) m.drafted = draw(&rng, 9);
      if (seed % 2) m.capacity = 256 + 16 * draw(&rng, 30);
      uint64_t arrives = 0, work = 0;
      for (int k = 0; k < 32; k++) {
        add(&m, 1 + draw(&rng, 120), 1 + draw(&rng, 40), arrives += draw(&rng, 6));
        work += (uint64_t)(m.j[k].prompt + m.j[k].generate);
      }
      run_all(&m, arrives + 20 * work);
    }
}

/* Requests of one size come out in the order in which they came in, also when pages run out. */
Test(policy_scheduler, first_come_first_served)
{
  for (int i = 0; i < 2; i++)
    for (uint32_t seed = 1; seed <= 20; seed++) {
      uint32_t rng = seed;
      machine m = machine_of(names[i], NULL, 24, 6);
      if (seed % 2) m.capacity = 320;
      uint64_t arrives = 0;
      for (uint32_t k = 0; k < 32; k++) add(&m, 30, 20, arrives += draw(&rng, 6));
      run_all(&m, 100000);
      for (uint32_t k = 1; k < 32; k++) {
        cr_assert(m.j[k].first >= m.j[k - 1].first, "%s, seed %u: %u before %u", names[i], seed, k, k - 1);
        cr_assert(m.j[k].last >= m.j[k - 1].last, "%s, seed %u: %u ends before %u", names[i], seed, k, k - 1);
      }
    }
}

/* A large request that does not fit beside others is not passed by small ones for ever. */
Test(policy_scheduler, a_large_request_gets_its_turn)
{
  machine m = machine_of("continuous", NULL, 32, 8);
  m.capacity = 400;
  add(&m, 100, 30, 0);
  add(&m, 340, 10, 1);
  for (uint32_t k = 0; k < 40; k++) add(&m, 20, 10, 2 + k);
  run_all(&m, 5000);
  for (uint32_t k = 2; k < m.n; k++) cr_expect(m.j[k].first >= m.j[1].first, "%u overtook", k);
}

Test(policy_scheduler, pages_run_out)
{
  machine m = machine_of("continuous", "reserve=0", 64, 8);
  m.capacity = 256;
  for (uint32_t k = 0; k < 8; k++) add(&m, 20, 60, 0);
  run_all(&m, 5000);
  cr_expect(m.preempted > 3, "%llu", (unsigned long long)m.preempted);
  for (uint32_t k = 0; k < 8; k++) cr_expect(m.j[k].said == 60, "no token is lost or said twice");
}

/* What is admitted in one step is counted together: two requests that only fit one by one do not start at once. */
Test(policy_scheduler, admission_counts_what_it_admits)
{
  static view w;
  uint32_t run[MAX], tokens[MAX], victims[MAX], how[MAX];
  machine m = machine_of("continuous", "reserve=0", 512, 8);
  m.capacity = 320;
  add(&m, 60, 5, 0);
  step(&m);
  for (uint32_t k = 0; k < 6; k++) add(&m, 60, 5, 1);
  look(&m, &w); /* 256 entries are free; each new one needs 60 and a page */
  tn_sched_plan p = {.struct_size = sizeof p, .run = run, .tokens = tokens, .preempt = victims, .how = how};
  cr_assert(m.v->plan(m.rig->inst, &w.v, &p) == TN_OK);
  cr_expect(eq(u32, p.n_run, 1 + 256 / 76));
  plugin_rig_close(m.rig);
}

/* Decoding sequences go on while a long prompt is read. */
Test(policy_scheduler, continuous_decodes_beside_a_prompt)
{
  machine m = machine_of("continuous", NULL, 8, 8);
  add(&m, 1, 50, 0);
  add(&m, 200, 1, 3);
  run_all(&m, 1000);
  cr_expect(eq(u64, m.j[0].last, 49), "a token in every step");
  cr_expect(eq(u64, m.j[1].first, 3 + (200 + 6) / 7 - 1), "7 rows a step are left for the prompt");
}

/* Each decoding sequence gets its row before anybody gets drafted ones. */
Test(policy_scheduler, continuous_shares_rows_among_drafts)
{
  machine m = machine_of("continuous", NULL, 10, 8);
  m.drafted = 7;
  for (uint32_t k = 0; k < 6; k++) add(&m, 1, 30, 0);
  run_all(&m, 1000);
  for (uint32_t k = 0; k < 6; k++) cr_expect(eq(u64, m.j[k].last, 29));
}

/* ---------------------------------------------------------------- steps, counted */

static uint64_t list_makespan(const machine *m, uint32_t slots)
{
  uint64_t ends[MAX] = {0}, last = 0;
  for (uint32_t i = 0; i < m->n; i++) { /* the slot that is free first, in order of arrival */
    uint32_t best = 0;
    for (uint32_t s = 1; s < slots; s++) best = ends[s] < ends[best] ? s : best;
    ends[best] += (uint64_t)m->j[i].generate;
    last = ends[best] > last ? ends[best] : last;
  }
  return last;
}

static uint64_t sum_of_longest(const machine *m, uint32_t batch)
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
    uint32_t rng = seed, slots = 1 + draw(&rng, 8);
    char batch[32];
    snprintf(batch, sizeof batch, "batch=%u", slots);
    machine a = machine_of("continuous", NULL, 512, slots), b = machine_of("static_batch", batch, 512, 64);
    for (uint32_t k = 0; k < 30; k++) {
      add(&a, 1, 1 + draw(&rng, 50), 0);
      add(&b, 1, a.j[k].generate, 0);
    }
    uint64_t want_a = list_makespan(&a, slots), want_b = sum_of_longest(&b, slots);
    uint64_t is_a = run_all(&a, 10000), is_b = run_all(&b, 10000);
    cr_assert(eq(u64, is_a, want_a), "seed %u, %u slots", seed, slots);
    cr_assert(eq(u64, is_b, want_b), "seed %u, batches of %u", seed, slots);
    saved += is_b - is_a;
  }
  cr_expect(saved > 1000, "%llu", (unsigned long long)saved);
}

/* With one slot or one sequence both are the same: token after token. */
Test(policy_scheduler, one_at_a_time)
{
  for (int i = 0; i < 2; i++) {
    machine m = machine_of(names[i], NULL, 4, 1);
    add(&m, 10, 5, 0);
    add(&m, 3, 2, 0);
    cr_expect(eq(u64, run_all(&m, 100), (3 + 4) + (1 + 1)), "%s", names[i]);
  }
}
