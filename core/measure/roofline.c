/* roofline: the two rates. See roofline.h. */
#include "roofline.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "cpu/peak.h"
#include "engine/engine_int.h"

#define READ_BYTES ((size_t)256 << 20)
#define READ_PASSES 16
#define READ_STREAMS ((size_t)4) /* that a thread reads at once: the most of what memory gives */
#define HUGE_PAGE ((size_t)2 << 20)

/* ---------------------------------------------------------------- reading */

typedef uint64_t line __attribute__((vector_size(64))); /* 64-aligned */

typedef struct read_job {
  uint64_t *data;       /* [READ_BYTES / 8] */
  uint64_t result[256]; /* [workers]: keeps the reads */
} read_job;

/* Words [*first, *last) of a worker: whole lines in each of its streams. */
static void share_of(uint32_t worker, uint32_t n, size_t *first, size_t *last)
{
  size_t blocks = READ_BYTES / (READ_STREAMS * 4096);
  *first = blocks * worker / n * (READ_STREAMS * 512);
  *last = blocks * (worker + 1) / n * (READ_STREAMS * 512);
}

static void write_share(void *arg, uint32_t worker, uint32_t n)
{
  read_job *j = arg;
  size_t first, last;
  share_of(worker, n, &first, &last);
  memset(j->data + first, 1, (last - first) * sizeof *j->data);
}

static void read_share(void *arg, uint32_t worker, uint32_t n)
{
  read_job *j = arg;
  size_t first, last;
  line sum = {0};
  share_of(worker, n, &first, &last);
  const line *p = (const line *)(const void *)(j->data + first);
  size_t step = (last - first) / 8 / READ_STREAMS;
  for (size_t i = 0; i < step; i++) {
    sum += p[i];
    sum += p[i + step];
    sum += p[i + 2 * step];
    sum += p[i + 3 * step];
  }
  j->result[worker] = sum[0] + sum[1] + sum[2] + sum[3] + sum[4] + sum[5] + sum[6] + sum[7];
}

tn_status tn_roofline_read(uint32_t threads, double *out, tn_err *err)
{
  tn_pool *pool = NULL;
  read_job *j = tn_zalloc(1, sizeof *j);
  void *memory = malloc(READ_BYTES + HUGE_PAGE);
  tn_status st = tn_pool_new(threads, &pool, err);
  if (st == TN_OK && (!j || !memory))
    st = tn_fail(err, TN_E_NOMEM, "no memory to measure the read rate: %zu MiB are wanted", READ_BYTES >> 20);
  if (st != TN_OK) goto done;
  j->data = (uint64_t *)(((uintptr_t)memory + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE);
  (void)madvise(j->data, READ_BYTES, MADV_HUGEPAGE);
  tn_pool_gang(pool, write_share, j);
  uint64_t best = UINT64_MAX;
  for (int i = 0; i < READ_PASSES; i++) {
    uint64_t start = tn_now_ns();
    tn_pool_gang(pool, read_share, j);
    uint64_t ns = tn_now_ns() - start;
    if (ns < best) best = ns;
  }
  *out = (double)READ_BYTES * 1e9 / (double)(best ? best : 1);
done:
  tn_pool_free(pool);
  free(memory);
  free(j);
  return st;
}

/* ---------------------------------------------------------------- operations */

enum { WINDOWS = 400 };

typedef struct peak_job {
  tnk_peak loop;
  double rate[]; /* [workers] operations a second */
} peak_job;

static int by_size(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Median over short windows: what the system interrupts is few of them. */
static void peak_of_worker(void *arg, uint32_t worker, uint32_t n)
{
  (void)n;
  peak_job *j = arg;
  tnk_peak_data d;
  int32_t sum[TNK_PEAK_ROWS * 16];
  double rate[WINDOWS];
  uint64_t rounds = 1, ns;
  memset(d.code, 7, sizeof d.code);
  memset(d.row, -3, sizeof d.row);
  for (int i = 0; i < WINDOWS;) {
    uint64_t start = tn_now_ns(), ops = j->loop(&d, rounds, sum);
    ns = tn_now_ns() - start;
    rate[i] = (double)ops * 1e9 / (double)(ns ? ns : 1);
    if (ns < 100000)
      rounds *= 2; /* first until a window lasts 0.1 ms */
    else
      i++;
  }
  qsort(rate, WINDOWS, sizeof *rate, by_size);
  j->rate[worker] = rate[WINDOWS / 2];
}

/* The rate of one loop on all workers. */
static double rate_of(tn_pool *pool, uint32_t threads, tnk_peak loop, peak_job *j)
{
  double sum = 0;
  j->loop = loop;
  tn_pool_gang(pool, peak_of_worker, j);
  for (uint32_t i = 0; i < threads; i++) sum += j->rate[i];
  return sum;
}

tn_status tn_roofline_int_ops(const tn_engine *e, tn_bounds *out, tn_err *err)
{
  const tn_instance *in = &e->exec->ranks[0].backend;
  const tnk_ext_peak *peak = in->desc->ext ? in->desc->ext(in->inst, "tenon.peak/2") : NULL;
  tn_pool *pool = NULL;
  out->int_ops = out->byte_ops = 0;
  if (!peak) return TN_OK;
  peak_job *j = tn_zalloc(1, sizeof *j + e->cfg.threads * sizeof *j->rate);
  tn_status st = tn_pool_new(e->cfg.threads, &pool, err);
  if (st == TN_OK && !j) st = tn_fail(err, TN_E_NOMEM, "no memory to measure the operation rate");
  if (st == TN_OK) {
    out->int_ops = rate_of(pool, e->cfg.threads, peak->loop(in->inst, 4), j);
    out->byte_ops = rate_of(pool, e->cfg.threads, peak->loop(in->inst, 8), j);
  }
  tn_pool_free(pool);
  free(j);
  return st;
}
