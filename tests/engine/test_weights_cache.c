/* An engine whose weights come from the cache of packed ones computes the bits of one that packs them itself; what has
 * changed or is damaged is not taken from there; and without a folder nothing is read or written. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/engine_rig.h"

enum { N = 24 };
static char dir[64], model[96], cache[96];

static void setup(void)
{
  if (access(TN_BUILD_DIR "/lib/tenon/backend/cpu.so", R_OK) != 0) cr_skip_test("the backend is not built");
  strcpy(dir, "/tmp/tenon-packed-XXXXXX");
  cr_assert(mkdtemp(dir) != NULL);
  snprintf(model, sizeof model, "%s/model.gguf", dir);
  snprintf(cache, sizeof cache, "%s/cache", dir);
}

static void teardown(void)
{
  char command[128];
  snprintf(command, sizeof command, "rm -rf %s", dir);
  if (*dir) cr_assert(system(command) == 0);
}
TestSuite(weights_cache, .init = setup, .fini = teardown, .timeout = 120);

static void take_model(const char *name)
{
  char command[512];
  snprintf(command, sizeof command, "cp %s %s", rig_tiny(name), model);
  cr_assert(system(command) == 0);
}

typedef struct scored { /* the logits of N tokens, and how many weights came from the cache */
  float *rows;          /* [n_rows][n_vocab] */
  uint32_t n_rows, n_vocab, n_kept;
} scored;

static void on_logits(void *ctx, uint64_t seq, void *user, int64_t pos, const float *row)
{
  scored *s = ctx;
  (void)seq, (void)user, (void)pos;
  memcpy(s->rows + (size_t)s->n_rows++ * s->n_vocab, row, s->n_vocab * sizeof *row);
}

static char said[8192];
static void on_log(void *ctx, int32_t level, const char *msg)
{
  (void)ctx, (void)level;
  strncat(said, msg, sizeof said - strlen(said) - 1);
}

/* folder NULL: without a cache. */
static scored score(const char *folder, const char *const *sets)
{
  size_t n_sets = 0;
  while (sets[n_sets]) n_sets++;
  tn_setup s;
  tn_err err = tn_err_init();
  tn_loader *loader = NULL;
  tn_loader_cfg cfg = {.path = TN_BUILD_DIR "/tests/plugins", .lib_dir = TN_BUILD_DIR "/lib/tenon"};
  scored r = {0};
  said[0] = '\0';
  cr_assert(tn_loader_new(&cfg, &loader, &err) == TN_OK, "%s", err.msg);
  tn_setup_args a = {.sets = sets,
                     .n_sets = n_sets,
                     .model = model,
                     .conf_dir = TN_SOURCE_DIR "/conf",
                     .cache_dir = folder,
                     .loader = loader,
                     .log = on_log,
                     .events = {.ctx = &r, .logits = on_logits}};
  cr_assert(tn_setup_open(&a, &s, &err) == TN_OK, "%s", err.msg);
  int32_t prompt[N];
  r.n_vocab = s.model->shape.n_vocab;
  rig_tokens(7, r.n_vocab, prompt, N);
  r.rows = calloc((size_t)N * r.n_vocab, sizeof *r.rows);
  cr_assert(r.rows != NULL);
  tn_request q = {.prompt = prompt, .n_prompt = N, .sampling = tn_sampling_default(), .score = 1};
  uint64_t id;
  cr_assert(tn_engine_submit(s.engine, &q, &id, &err) == TN_OK, "%s", err.msg);
  while (!tn_engine_idle(s.engine)) cr_assert(tn_engine_step(s.engine, &err) == TN_OK, "%s", err.msg);
  r.n_kept = tn_engine_stat(s.engine).weights_kept;
  tn_setup_close(&s);
  tn_loader_free(loader);
  return r;
}

static bool same(const scored *a, const scored *b)
{
  return a->n_rows == N && b->n_rows == N && a->n_vocab == b->n_vocab &&
         memcmp(a->rows, b->rows, (size_t)N * a->n_vocab * sizeof *a->rows) == 0;
}

static uint32_t files(void)
{
  DIR *d = opendir(cache);
  uint32_t n = 0;
  for (struct dirent *e; d && (e = readdir(d));) n += e->d_name[0] != '.';
  if (d) closedir(d);
  return n;
}

/* Fresh, written, read: the same bits, and the second time every matrix is there. */
static void expect_bits(const char *name, const char *const *sets, uint32_t want_files)
{
  take_model(name);
  scored fresh = score(NULL, sets), first = score(cache, sets), second = score(cache, sets);
  cr_expect(eq(u32, fresh.n_kept, 0));
  cr_expect(eq(u32, first.n_kept, 0));
  cr_expect(gt(u32, second.n_kept, 10), "%s: nothing came from the cache: %s", name, said);
  cr_expect(strstr(said, "weights: packed cache hit ") && !strstr(said, "written"), "%s", said);
  cr_expect(eq(u32, files(), want_files));
  cr_expect(same(&fresh, &first), "other logits");
  cr_expect(same(&fresh, &second), "other logits");
  free(fresh.rows);
  free(first.rows);
  free(second.rows);
}

#define BASE "compose.backend=cpu", "engine.threads=2", "engine.ctx=128"
static const char *const plain[] = {BASE, NULL};

Test(weights_cache, same_bits_llama) { expect_bits("llama", plain, 1); }
Test(weights_cache, same_bits_gemma) { expect_bits("gemma3", plain, 1); }
Test(weights_cache, same_bits_quantized)
{
  expect_bits("llama", (const char *const[]){BASE, "compose.weights=int8", NULL}, 1);
}
Test(weights_cache, same_bits_on_two_ranks)
{
  expect_bits("llama", (const char *const[]){BASE, "compose.parallel=tensor", NULL}, 2);
}

/* Compositions that pack otherwise have files of their own; such that only run otherwise share one. */
Test(weights_cache, a_file_for_each_way_of_packing)
{
  take_model("llama");
  static const char *const q8[] = {BASE, "compose.weights=int8", NULL};
  static const char *const q4[] = {BASE, "compose.weights=int4", NULL};
  static const char *const q8_64[] = {BASE, "compose.weights=int8", "quantizer.int8.group=64", NULL};
  static const char *const scalar[] = {BASE, "backend.cpu.isa=scalar", "engine.activations=int8", NULL};
  scored a = score(cache, plain), b = score(cache, q8), c = score(cache, q4), d = score(cache, q8_64);
  cr_expect(a.n_kept + b.n_kept + c.n_kept + d.n_kept == 0, "%s", said);
  cr_expect(eq(u32, files(), 4));
  scored e = score(cache, scalar);
  cr_expect(gt(u32, e.n_kept, 10), "%s", said);
  cr_expect(eq(u32, files(), 4));
  free(a.rows);
  free(b.rows);
  free(c.rows);
  free(d.rows);
  free(e.rows);
}

static uint32_t kept(const char *folder, const char *const *sets)
{
  scored r = score(folder, sets);
  free(r.rows);
  return r.n_kept;
}

Test(weights_cache, off_neither_reads_nor_writes)
{
  static const char *const off[] = {BASE, "engine.weights_cache=no", NULL};
  take_model("llama");
  cr_expect(eq(u32, kept(cache, off), 0));
  cr_expect(access(cache, F_OK) != 0, "the folder is made");
  cr_expect(eq(u32, kept(cache, plain), 0));
  cr_expect(eq(u32, files(), 1));
  cr_expect(eq(u32, kept(cache, off), 0));
  cr_expect(eq(u32, kept(NULL, plain), 0));
  cr_expect(gt(u32, kept(cache, plain), 0));
}

Test(weights_cache, a_changed_model_is_packed_again)
{
  take_model("llama");
  kept(cache, plain);
  const struct timespec when[2] = {{1, 0}, {1, 7}};
  cr_assert(utimensat(AT_FDCWD, model, when, 0) == 0);
  cr_expect(eq(u32, kept(cache, plain), 0), "the time of the last change is another");
  cr_expect(gt(u32, kept(cache, plain), 0));
  char command[512];
  snprintf(command, sizeof command, "cp -p %s %s.new && mv %s.new %s", model, model, model, model);
  cr_assert(system(command) == 0);
  cr_expect(eq(u32, kept(cache, plain), 0), "the file is another one");
}

static void each_file(void (*fn)(const char *path))
{
  DIR *d = opendir(cache);
  cr_assert(d != NULL);
  char path[400];
  for (struct dirent *e; (e = readdir(d));) {
    if (e->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "%s/%s", cache, e->d_name);
    fn(path);
  }
  closedir(d);
}

static void flip(const char *path)
{
  uint8_t x;
  int fd = open(path, O_RDWR);
  cr_assert(fd >= 0 && pread(fd, &x, 1, 4096 + 1000) == 1);
  x ^= 1;
  cr_assert(pwrite(fd, &x, 1, 4096 + 1000) == 1);
  close(fd);
}

static void cut(const char *path) { cr_assert(truncate(path, 5000) == 0); }

Test(weights_cache, damage_is_not_computed_with)
{
  take_model("llama");
  scored fresh = score(NULL, plain);
  uint32_t all = (kept(cache, plain), kept(cache, plain));
  each_file(flip);
  scored r = score(cache, plain);
  cr_expect(eq(u32, r.n_kept, all - 1), "%s", said);
  cr_expect(same(&fresh, &r), "other logits");
  free(r.rows);
  cr_expect(eq(u32, kept(cache, plain), all), "it is not mended");
  each_file(cut);
  r = score(cache, plain);
  cr_expect(eq(u32, r.n_kept, 0), "%s", said);
  cr_expect(same(&fresh, &r), "other logits");
  free(r.rows);
  cr_expect(eq(u32, kept(cache, plain), all));
  free(fresh.rows);
}

Test(weights_cache, a_folder_that_cannot_be_is_no_error)
{
  take_model("llama");
  cr_expect(eq(u32, kept("/dev/null/tenon", plain), 0));
  cr_expect(strstr(said, "weights: packed cache is not written: ") != NULL, "%s", said);
  static const char *const little[] = {BASE, "engine.weights_cache_limit=1K", NULL};
  cr_expect(eq(u32, kept(cache, little), 0));
  cr_expect(strstr(said, "the limit") != NULL, "%s", said);
  cr_expect(eq(u32, files(), 0));
}

/* Two processes that find no file write it at once; two that find it share it. */
Test(weights_cache, two_processes)
{
  take_model("gemma3");
  for (int round = 0; round < 2; round++) {
    pid_t child[2];
    for (int i = 0; i < 2; i++) {
      child[i] = fork();
      cr_assert(child[i] >= 0);
      if (child[i] > 0) continue;
      scored mine = score(cache, plain), fresh = score(NULL, plain);
      _exit(same(&mine, &fresh) && (round == 0 || mine.n_kept > 10) ? 0 : 1);
    }
    for (int i = 0; i < 2; i++) {
      int status;
      cr_assert(waitpid(child[i], &status, 0) == child[i]);
      cr_expect(eq(int, status, 0), "round %d, process %d", round, i);
    }
    cr_expect(eq(u32, files(), 1));
  }
}
