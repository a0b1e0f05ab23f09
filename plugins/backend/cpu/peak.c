/* peak: "tenon.peak/1": the inner loop of matmuls on every worker at once, so that a measurement has a bound. */
#include <string.h>

#include "cpu.h"
#include "cpu/peak.h"

_Static_assert(sizeof(tnk_peak_data) <= CPU_WORK, "the loop's data fit into a worker's scratch");

typedef struct job {
  tnk_peak loop;
  const tnk_peak_data *data;
  uint64_t rounds, ops; /* ops: of worker 0 */
} job;

static void loop_of_worker(void *arg, uint32_t worker, uint32_t n_workers)
{
  job *j = arg;
  int32_t sum[TNK_PEAK_ROWS * TNK_PANEL];
  (void)n_workers;
  const uint64_t ops = j->loop(j->data, j->rounds, sum);
  if (worker == 0) j->ops = ops;
}

static uint64_t run(tn_inst *in, uint64_t rounds)
{
  tnk_peak_data *data = (tnk_peak_data *)(void *)in->work; /* nothing else runs now */
  job j = {tnk_peak_of(in->isa), data, rounds, 0};
  tnk_peak_fill(data);
  tn_cpu_gang(in, loop_of_worker, &j);
  return j.ops * in->n_workers;
}

const void *tn_cpu_ext(tn_inst *in, const char *id)
{
  static const tnk_ext_peak peak = {sizeof peak, 0, run};
  (void)in;
  return strcmp(id, "tenon.peak/1") == 0 ? &peak : NULL;
}
