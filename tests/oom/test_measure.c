/* What measures without an engine, with each allocation failing in turn: recorded laws, statistics, questions, journals and
 * the comparison of records. See sweep.h. The JSON library's own allocations do not fail. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "measure/base_file.h"
#include "measure/diff.h"
#include "measure/journal.h"
#include "measure/tasks.h"
#include "oom.h"
#include "sweep.h"

static char path[64];

static void give(void *p) { free(p); } /* the wrapped one */

static void setup(void)
{
  json_set_alloc_funcs(oom_safe, give);
  snprintf(path, sizeof path, "/tmp/tenon-oom-%d", (int)getpid());
}

static void teardown(void) { (void)unlink(path); }
TestSuite(oom_measure, .init = setup, .fini = teardown);

/* ---------------------------------------------------------------- recorded laws */

#define V 5
static const int32_t tokens[8] = {1, 2, 3, 4, 0, 4, 3, 2};
static const float row[V] = {0, 1, 2, -30, 1};

static tn_status record(uint32_t k, tn_err *err)
{
  tn_base_info info = {k, 4, 2, V, 2, tokens};
  tn_base_writer *w = NULL;
  tn_status st = tn_base_create(path, &info, &w, err);
  for (int i = 0; st == TN_OK && i < 2; i++) st = tn_base_put(w, row, tokens[4 * i + 3], err);
  tn_status end = tn_base_finish(w, err);
  return st == TN_OK ? end : st;
}

static tn_status read_back(tn_err *err)
{
  tn_base *b = NULL;
  tn_kld_token t;
  tn_status st = tn_base_open(path, &b, err);
  for (uint32_t i = 0; st == TN_OK && i < 2; i++) st = tn_base_compare(b, row, tokens[4 * i + 3], &t, err);
  tn_base_free(b);
  return st;
}

static tn_status llama_base(tn_err *err)
{
  tn_status st = record(0, err);
  return st == TN_OK ? read_back(err) : st;
}

static tn_status compact_base(tn_err *err)
{
  tn_status st = record(3, err);
  return st == TN_OK ? read_back(err) : st;
}

Test(oom_measure, llama_base) { oom_sweep(llama_base, TN_OK, 6); }
Test(oom_measure, compact_base) { oom_sweep(compact_base, TN_OK, 8); }

/* ---------------------------------------------------------------- statistics */

static tn_status stats(tn_err *err)
{
  tn_kld_token t[20];
  tn_kld_stats s;
  for (int i = 0; i < 20; i++) t[i] = (tn_kld_token){.nll = 2 + i % 3, .nll_base = 2 + i % 4, .kld = 0.1 * i, .pos = i};
  tn_status st = tn_kld_stats_of(t, 20, true, &s, err);
  return st == TN_OK ? tn_kld_stats_between(t, 20, true, 5, 15, &s, err) : st;
}

Test(oom_measure, stats) { oom_sweep(stats, TN_OK, 3); }

/* ---------------------------------------------------------------- questions */

static tn_status questions(tn_err *err)
{
  static const char text[] =
      "{\"context\": \"one and\", \"choices\": [\"two\", \" three\"], \"gold\": 1}\n\n"
      "{\"question\": \"who?\", \"choices\": {\"text\": [\"a\", \"b\"]}, \"answerKey\": \"B\"}\n";
  tn_tasks t = {0};
  tn_status st = tn_tasks_parse("made.jsonl", text, sizeof text - 1, &t, err);
  cr_expect(t.n == (st == TN_OK ? 2u : 0u));
  tn_tasks_free(&t);
  return st;
}

Test(oom_measure, questions) { oom_sweep(questions, TN_OK, 10); }

/* A question whose answer is no choice: the sentence is the same without the memory to show the answer. */
static tn_status bad_question(tn_err *err)
{
  static const char text[] = "{\"context\": \"one\", \"choices\": [\"two\"], \"gold\": \"three\"}\n";
  tn_tasks t = {0};
  tn_status st = tn_tasks_parse("made.jsonl", text, sizeof text - 1, &t, err);
  tn_tasks_free(&t);
  return st == TN_E_NOMEM || strstr(err->msg, "made.jsonl:1: gold: ") ? st : TN_E_INTERNAL;
}

Test(oom_measure, bad_question)
{
  uint64_t n = 0;
  for (bool last = false; !last;) {
    int64_t live = oom_live();
    tn_err err = tn_err_init();
    oom_arm(++n);
    tn_status st = bad_question(&err);
    last = !oom_fired();
    cr_expect(st == TN_E_ARG || (!last && st == TN_E_NOMEM), "allocation %lu: %s", (unsigned long)n, err.msg);
    cr_expect(eq(i64, oom_live(), live), "allocation %lu", (unsigned long)n);
  }
}

/* ---------------------------------------------------------------- journals */

static tn_status journal(tn_err *err)
{
  tn_journal *j = NULL;
  tn_status st = tn_journal_open(path, json_pack("{s:s, s:i}", "what", "a text", "chunks", 4), &j, err);
  if (st == TN_OK) st = tn_journal_add(j, json_pack("{s:i, s:[f,f]}", "chunk", 0, "nll", 1.5, 2.5), err);
  tn_journal_close(j);
  j = NULL;
  if (st == TN_OK) st = tn_journal_open(path, json_pack("{s:s, s:i}", "what", "a text", "chunks", 4), &j, err);
  if (st == TN_OK) cr_expect(tn_journal_at(j, 0) != NULL);
  tn_journal_close(j);
  (void)unlink(path);
  return st;
}

Test(oom_measure, journal) { oom_sweep(journal, TN_OK, 6); }

/* ---------------------------------------------------------------- records of two runs */

static tn_status trace(tn_diff *d, const char *name, float x, tn_err *err)
{
  const float values[6] = {1, 2, x, 4, 5, 6};
  const int64_t pos[2] = {0, 1};
  const tn_op op = {.name = name, .layer = 17, .kind = TN_OP_LINEAR};
  const tn_traced t = {.op = &op, .n_rows = 2, .cols = 3, .n_cols = 3, .x = values, .pos = pos};
  tn_status st = tn_diff_trace(d, &t);
  return st == TN_OK ? st : tn_fail(err, st, "%s", d->err.msg);
}

/* After a failure the same record may come again. */
static tn_status diff(tn_err *err)
{
  tn_diff d;
  tn_status st = TN_OK, again = TN_OK;
  tn_diff_init(&d, 2, true);
  d.on = true;
  for (int side = 0; side < 2; side++) {
    d.second = side == 1;
    for (int i = 0; i < 2; i++) {
      tn_status now = trace(&d, i ? "blk.17.ffn_up" : "blk.17.ffn_norm", side && i ? 3.5f : 3, err);
      if (now == TN_OK) continue;
      st = now;
      again = trace(&d, i ? "blk.17.ffn_up" : "blk.17.ffn_norm", side && i ? 3.5f : 3, err);
    }
  }
  const tn_diff_record *f = tn_diff_first(&d);
  cr_expect(again == TN_OK && f && strcmp(f->name, "blk.17.ffn_up") == 0 && f->row == 0 && f->col == 2);
  tn_diff_release(&d);
  return st;
}

Test(oom_measure, diff) { oom_sweep(diff, TN_OK, 10); }
