/* sched_machine: see sched_machine.h. */
#include "sched_machine.h"

#include <criterion/criterion.h>
#include <string.h>

sched_machine sched_machine_of(const char *name, const char *set, uint32_t max_rows, uint32_t max_seqs)
{
  return sched_machine_on(name, (const char *const[]){set, NULL}, NULL, max_rows, max_seqs);
}

sched_machine sched_machine_on(const char *name, const char *const *sets, const tn_svc_model *model, uint32_t max_rows,
                               uint32_t max_seqs)
{
  sched_machine m = {
      .rig = plugin_rig_open_on(TN_SLOT_SCHEDULER, name, sets, model), .max_rows = max_rows, .max_seqs = max_seqs};
  m.v = m.rig->vtable;
  m.page_tokens = 16;
  return m;
}

void sched_add(sched_machine *m, int64_t prompt, int64_t generate, uint64_t arrives)
{
  m->j[m->n++] = (sched_job){.prompt = prompt, .generate = generate, .arrives = arrives, .state = TN_SEQ_WAITING};
}

static bool holds(const sched_job *j) { return !j->over && (j->state == TN_SEQ_PREFILL || j->state == TN_SEQ_DECODE); }

static int64_t pages(const sched_machine *m, int64_t entries)
{
  return (entries + m->page_tokens - 1) / m->page_tokens;
}

static int64_t free_pages(const sched_machine *m)
{
  int64_t n = m->capacity / m->page_tokens;
  for (uint32_t i = 0; i < m->n; i++)
    if (holds(&m->j[i])) n -= pages(m, m->j[i].done);
  return n;
}

void sched_look(const sched_machine *m, sched_view *w)
{
  uint32_t n = 0;
  memset(w, 0, sizeof *w);
  for (uint32_t i = 0; i < m->n; i++) {
    const sched_job *j = &m->j[i];
    if (j->over || j->arrives > m->step) continue;
    int64_t text = j->prompt + j->said;
    w->at[n] = i;
    w->seq[n] = i + 1;
    w->arrival[n] = i;
    w->state[n] = j->state;
    w->todo[n] = text - j->done + (j->state == TN_SEQ_DECODE ? m->drafted : 0);
    w->held[n] = j->state == TN_SEQ_WAITING ? 0 : j->done;
    w->priority[n] = j->priority;
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

static void preempt(sched_machine *m, sched_job *j, uint32_t how)
{
  cr_assert(holds(j) && (how == TN_PREEMPT_RECOMPUTE || how == TN_PREEMPT_SWAP));
  m->preempted++;
  j->state = how == TN_PREEMPT_SWAP ? TN_SEQ_SWAPPED : TN_SEQ_WAITING;
  if (how == TN_PREEMPT_RECOMPUTE) j->done = 0;
}

/* Room for what the jobs of the plan run, in their order; the plugin says who gives way. Entries count once reserved. */
static void reserve(sched_machine *m, sched_view *w, const tn_sched_plan *p)
{
  int64_t reserved = 0;
  for (uint32_t k = 0; k < p->n_run;) {
    const sched_job *j = &m->j[w->at[p->run[k]]];
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

static void run_job(sched_machine *m, sched_job *j, int64_t rows)
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

void sched_step(sched_machine *m)
{
  static sched_view w;
  uint32_t run[SCHED_MAX], tokens[SCHED_MAX], victims[SCHED_MAX], how[SCHED_MAX], residents = 0, rows = 0;
  bool planned[SCHED_MAX] = {false};
  sched_look(m, &w);
  tn_sched_plan p = {.struct_size = sizeof p, .run = run, .tokens = tokens, .preempt = victims, .how = how};
  cr_assert(m->v->plan(m->rig->inst, &w.v, &p) == TN_OK);
  cr_assert(p.n_run <= w.v.n && p.n_preempt == 0);
  cr_assert(p.n_run > 0 || w.v.n == 0, "step %llu: nobody runs of %u", (unsigned long long)m->step, w.v.n);
  m->streams = 0;
  for (uint32_t i = 0; i < w.v.n; i++) residents += holds(&m->j[w.at[i]]), m->streams += w.state[i] == TN_SEQ_DECODE;
  for (uint32_t k = 0; k < p.n_run; k++) {
    cr_assert(run[k] < w.v.n && !planned[run[k]], "entry %u: sequence %u", k, run[k]);
    cr_assert(tokens[k] >= 1 && tokens[k] <= w.todo[run[k]], "%u tokens of %d", tokens[k], (int)w.todo[run[k]]);
    planned[run[k]] = true;
    rows += tokens[k];
    residents += !holds(&m->j[w.at[run[k]]]);
  }
  m->rows = rows;
  cr_assert(rows <= m->max_rows, "%u rows of %u", rows, m->max_rows);
  cr_assert(residents <= m->max_seqs, "%u sequences of %u", residents, m->max_seqs);
  bool full = false;
  for (uint32_t k = 0; k < p.n_run; k++) { /* as the engine does it: all are admitted, then reserve, then run */
    sched_job *j = &m->j[w.at[run[k]]];
    if (holds(j)) continue;
    full = full || (m->capacity && free_pages(m) < pages(m, j->prompt + j->said));
    if (!full) j->state = w.state[run[k]] = TN_SEQ_PREFILL;
    if (!full && j->starts == 0) j->starts = ++m->admitted;
  }
  reserve(m, &w, &p);
  for (uint32_t k = 0; k < p.n_run; k++)
    if (holds(&m->j[w.at[run[k]]])) run_job(m, &m->j[w.at[run[k]]], tokens[k]);
  m->step++;
}

static bool all_over(const sched_machine *m)
{
  for (uint32_t i = 0; i < m->n; i++)
    if (!m->j[i].over) return false;
  return true;
}

uint64_t sched_run_all(sched_machine *m, uint64_t most)
{
  while (!all_over(m)) {
    cr_assert(m->step < most, "not over after %llu steps", (unsigned long long)most);
    sched_step(m);
  }
  uint64_t steps = m->step;
  plugin_rig_close(m->rig);
  return steps;
}

uint32_t sched_draw(uint32_t *x, uint32_t n)
{
  *x = *x * 1664525u + 1013904223u;
  return (uint32_t)(((uint64_t)*x * n) >> 32);
}
