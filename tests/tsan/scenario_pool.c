/* Pools from create to destroy: gangs at once and after the workers sleep, barriers, pools without a gang, several pools
 * on several threads. What one worker writes before a barrier every other reads behind it, without an atomic. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "host/pool.h"

enum { MAX = 5, PHASES = 6, GANGS = 60 };

typedef struct job {
  uint64_t cell[2][MAX]; /* by phase's parity */
  uint64_t sum[MAX];
  tn_pool *pool;
  uint32_t seed;
} job;

/* Each phase, a worker's cell becomes the sum of all cells of the phase before, plus its number. */
static void work(void *arg, uint32_t worker, uint32_t n)
{
  job *j = arg;
  j->cell[0][worker] = j->seed + worker;
  for (uint32_t phase = 0; phase < PHASES; phase++) {
    tn_pool_barrier(j->pool);
    uint64_t sum = worker;
    for (uint32_t i = 0; i < n; i++) sum += j->cell[phase % 2][i];
    j->cell[(phase + 1) % 2][worker] = sum;
  }
  j->sum[worker] = j->cell[PHASES % 2][worker];
}

/* The same on one thread. */
static uint64_t expected(uint32_t seed, uint32_t worker, uint32_t n)
{
  uint64_t cell[2][MAX];
  for (uint32_t i = 0; i < n; i++) cell[0][i] = seed + i;
  for (uint32_t phase = 0; phase < PHASES; phase++)
    for (uint32_t w = 0; w < n; w++) {
      cell[(phase + 1) % 2][w] = w;
      for (uint32_t i = 0; i < n; i++) cell[(phase + 1) % 2][w] += cell[phase % 2][i];
    }
  return cell[PHASES % 2][worker];
}

static void pause_us(long us) { nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL); }

/* Wrong sums of one pool's life. */
static int life(uint32_t n, int gangs)
{
  job j = {0};
  int faults = 0;
  if (tn_pool_new(n, &j.pool, NULL) != TN_OK) return 1;
  for (int g = 0; g < gangs; g++) {
    if (g % 20 == 19) pause_us(3000); /* long enough for all to sleep */
    j.seed = (uint32_t)g;
    memset(j.sum, 0, sizeof j.sum);
    tn_pool_gang(j.pool, work, &j);
    for (uint32_t w = 0; w < n; w++) faults += j.sum[w] != expected(j.seed, w, n);
  }
  tn_pool_free(j.pool);
  return faults;
}

static void *lives(void *arg)
{
  int *faults = arg;
  for (uint32_t n = 1; n <= MAX; n++) *faults += life(n, GANGS / (int)n);
  for (uint32_t n = 1; n <= MAX; n++) *faults += life(n, 0); /* free while threads are still starting */
  for (uint32_t n = 2; n <= MAX; n++) *faults += life(n, 1);
  return NULL;
}

int main(void)
{
  pthread_t thread[2];
  int faults[3] = {0};
  lives(&faults[2]);
  for (int i = 0; i < 2; i++)
    if (pthread_create(&thread[i], NULL, lives, &faults[i]) != 0) return 1;
  for (int i = 0; i < 2; i++) pthread_join(thread[i], NULL);
  int all = faults[0] + faults[1] + faults[2];
  if (all) fprintf(stderr, "%d faults\n", all);
  return all != 0;
}
