/* The matrix with each allocation failing in turn: what there is to pair, the start of the runs, one run, and the report. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "matrix/matrix_int.h"
#include "model/model.h"
#include "oom.h"
#include "sweep.h"

#define LIB TN_BUILD_DIR "/lib/tenon"

/* A folder with few plugins, so that a sweep is short: those of the default composition and two more. */
static char dir[] = "/tmp/tenon-oom-XXXXXX";
static const char *const models[] = {TN_SOURCE_DIR "/tests/data/tiny/llama.gguf"};

static void put(const char *slot, const char *name)
{
  char from[1024], to[128];
  snprintf(to, sizeof to, "%s/%s", dir, slot);
  (void)mkdir(to, 0700);
  snprintf(to, sizeof to, "%s/%s/%s.so", dir, slot, name);
  snprintf(from, sizeof from, "%s/%s/%s.so", LIB, slot, name);
  cr_assert(access(from, R_OK) == 0 && symlink(from, to) == 0, "%s", from);
}

static void setup(void)
{
  cr_assert(mkdtemp(dir) != NULL);
  put("backend", "cpu");
  put("memory", "paged");
  put("attention", "full");
  put("position", "rope");
  put("scheduler", "continuous");
  put("quantizer", "int8");
  put("eviction", "streaming_llm");
}

static void teardown(void)
{
  char cmd[128];
  snprintf(cmd, sizeof cmd, "rm -rf %s", dir);
  cr_assert(system(cmd) == 0);
}

TestSuite(oom_matrix, .init = setup, .fini = teardown, .timeout = 300);

static bool stop(void *ctx, size_t done, size_t planned)
{
  (void)ctx, (void)done, (void)planned;
  return false;
}

static tn_status fresh(tn_matrix_cfg *cfg, tn_err *err)
{
  const tn_loader_cfg loader = {.path = dir, .exe_dir = "/nonexistent/bin", .lib_dir = "/nonexistent/lib"};
  *cfg = (tn_matrix_cfg){
      .models = models, .n_models = 1, .conf_dir = TN_SOURCE_DIR "/conf", .jobs = 1, .timeout_s = 60, .progress = stop};
  return tn_loader_new(&loader, &cfg->loader, err);
}

static tn_status parts(tn_err *err)
{
  tn_matrix_cfg cfg;
  tn_matrix m = {0};
  tn_names backends = {0};
  tn_status st = fresh(&cfg, err);
  if (st == TN_OK) st = tn_matrix_parts(&cfg, 2, &m, &backends, err);
  cr_expect(st != TN_OK || (m.n_parts == 8 && backends.n == 1), "%zu parts", m.n_parts); /* int8 is two */
  tn_matrix_free(&m);
  tn_names_free(&backends);
  tn_loader_free(cfg.loader);
  return st;
}

Test(oom_matrix, parts) { oom_sweep(parts, TN_OK, 200); }

/* The first run is started, and then stopped. */
static tn_status start(tn_err *err)
{
  tn_matrix_cfg cfg;
  tn_matrix m = {0};
  tn_status st = fresh(&cfg, err);
  if (st == TN_OK) st = tn_matrix_run(&cfg, &m, err);
  tn_matrix_free(&m);
  tn_loader_free(cfg.loader);
  return st;
}

Test(oom_matrix, start) { oom_sweep(start, TN_E_STATE, 250); }

/* One run in this process, for some of its allocations: it failed for want of memory, or needed none. */
Test(oom_matrix, one)
{
  enum { RUNS = 40 };
  tn_matrix_cfg cfg;
  tn_names backends = {0};
  tn_err err = tn_err_init();
  tn_matrix_part part = {.key = "kv", .slot = TN_SLOT_QUANTIZER, .name = (char *)(uintptr_t) "int8"};
  tn_matrix_outcome out = {0}, want;
  cr_assert(fresh(&cfg, &err) == TN_OK);
  tn_matrix_run_args run = {
      .cfg = &cfg, .model = models[0], .a = &part, .backends = &backends, .n_vocab = 0, .out = &out};
  tn_model *model;
  cr_assert(tn_model_open(models[0], NULL, NULL, &model, &err) == TN_OK, "%s", err.msg);
  run.n_vocab = model->shape.n_vocab;
  tn_model_close(model);
  tn_matrix_one(&run);
  cr_assert(out.state == TN_RUN_DONE, "%s", out.text);
  want = out;
  uint64_t calls = oom_calls();
  out = (tn_matrix_outcome){0};
  tn_matrix_one(&run);
  calls = oom_calls() - calls;
  tn_loader_free(cfg.loader);
  cr_expect(gt(u64, calls, 500));
  for (uint64_t i = 0; i < RUNS; i++) {
    int64_t live = oom_live();
    uint64_t n = 1 + i * calls / RUNS;
    out = (tn_matrix_outcome){0};
    cr_assert(fresh(&cfg, &err) == TN_OK);
    oom_arm(n);
    tn_matrix_one(&run);
    bool fired = oom_fired(), done = out.state == TN_RUN_DONE;
    tn_loader_free(cfg.loader);
    cr_expect(fired);
    cr_expect(done || (out.state == TN_RUN_FAILED && strstr(out.text, "no memory")), "allocation %lu: %u %s",
              (unsigned long)n, out.state, out.text);
    bool same = out.scored == want.scored && out.generated == want.generated;
    cr_expect(same || out.state != TN_RUN_DONE, "allocation %lu", (unsigned long)n);
    cr_expect(oom_live() == live, "allocation %lu: %ld stay behind", (unsigned long)n, (long)(oom_live() - live));
  }
}

static tn_status report(tn_err *err)
{
  tn_matrix_cfg cfg = {.models = models, .n_models = 1};
  tn_matrix_part part[2] = {{.key = "kv", .name = (char *)(uintptr_t) "int8"},
                            {.key = "eviction", .name = (char *)(uintptr_t) "streaming_llm"}};
  tn_matrix_cell cell[3] = {{.kind = TN_CELL_KLD, .kld = 0.005, .same_as = UINT32_MAX},
                            {.a = 1, .b = 1, .kind = TN_CELL_REFUSED, .text = "because (conf/x.ini:3)"},
                            {.b = 1, .kind = TN_CELL_FAIL, .text = "it failed"}};
  const tn_matrix m = {.parts = part, .cells = cell, .n_parts = 2, .n_cells = 3};
  tn_text t = {0};
  tn_matrix_markdown(&m, &cfg, &t);
  tn_status st = t.failed ? tn_fail(err, TN_E_NOMEM, "no memory for the report") : TN_OK;
  cr_expect(t.failed || strstr(t.p, "- int8, streaming_llm: it failed"), "%s", tn_text_str(&t));
  tn_text_release(&t);
  return st;
}

Test(oom_matrix, report) { oom_sweep(report, TN_OK, 1); }
