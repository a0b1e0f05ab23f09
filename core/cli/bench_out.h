/* bench_out: how `tenon bench` shows results: a table for people, llama-bench's fields for programs. */
#ifndef TN_CORE_CLI_BENCH_OUT_H
#define TN_CORE_CLI_BENCH_OUT_H

#include "cli/engine_args.h"
#include "measure/bench.h"
#include "measure/bench_ops.h"

enum { TN_BENCH_MD = 0, TN_BENCH_CSV, TN_BENCH_JSON, TN_BENCH_JSONL };

typedef struct tn_bench_out { /* zeroed, then the first two set */
  uint32_t format;
  bool seqs;           /* the table has a column of sequences */
  uint32_t n;          /* results so far */
  const char *variant; /* what this composition is among several, for a column of its own; NULL: there is one */
  char notes[2048];    /* lines below the table */
} tn_bench_out;

/* What the machine does at most, for the lines below the table. */
void tn_bench_out_bounds(tn_bench_out *o, const tn_setup *s, const tn_bounds *b);

/* One result. TN_EXIT_FAIL when there is no memory or stdout cannot be written, after saying so. */
int tn_bench_out_test(tn_bench_out *o, const tn_setup *s, const tn_bounds *b, const tn_bench_test *t,
                      const tn_bench_result *r);
int tn_bench_out_op(tn_bench_out *o, const tn_setup *s, const tn_bounds *b, const tn_bench_op *op);

/* What ends the output. */
int tn_bench_out_end(tn_bench_out *o, int code);

/* bench_facts.c: model, machine and composition, as fields in llama-bench's order. NULL: no memory. */
json_t *tn_bench_facts(const tn_setup *s);
/* {"backend": "cpu", ...}: the plugin under each key. NULL: no memory. */
json_t *tn_bench_composition(const tn_composition *c);
/* "pp512", "tg64 @ d4096", "pp64+tg16". */
void tn_bench_test_name(const tn_bench_test *t, char out[64]);

#endif
