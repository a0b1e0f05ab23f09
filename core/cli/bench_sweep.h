/* bench_sweep: the compositions of one `tenon bench`: every combination of the alternatives in --conf a.ini,b.ini and
 * --set section.key=a,b. A value in braces is one value: --set 'section.key={1,2}'. Thread rule: the main thread. */
#ifndef TN_CORE_CLI_BENCH_SWEEP_H
#define TN_CORE_CLI_BENCH_SWEEP_H

#include "cli/engine_args.h"

/* How many there are; 1 where nothing has alternatives. */
uint32_t tn_bench_sweep_n(const tn_engine_args *a);

/* Combination k: *out has its files and settings, with texts of its own (tn_engine_args_release), and variant what was
 * chosen where there was a choice: "b.ini compose.kv=int8". false: no memory. */
bool tn_bench_sweep_at(const tn_engine_args *a, uint32_t k, tn_engine_args *out, char variant[128]);

#endif
