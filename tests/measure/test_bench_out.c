/* bench_out: `tenon bench` as a user and as a program reads it. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define TENON TN_BUILD_DIR "/bin/tenon"
#define MODEL " -m " TN_SOURCE_DIR "/tests/data/tiny/llama.gguf "

static char out[262144];

/* Runs the command through the shell; out receives stdout (with "2>&1" in args: both). The exit code. */
static int run(const char *args)
{
  char command[1024];
  snprintf(command, sizeof command, TENON " bench %s", args);
  FILE *f = popen(command, "r");
  cr_assert(f != NULL);
  size_t n = fread(out, 1, sizeof out - 1, f);
  out[n] = '\0';
  int rc = pclose(f);
  return WIFEXITED(rc) ? WEXITSTATUS(rc) : -1;
}

static void built(void)
{
  if (access(TENON, X_OK) != 0) cr_skip_test(TENON " is not built");
  if (access(TN_BUILD_DIR "/lib/tenon/backend/cpu.so", R_OK) != 0) cr_skip_test("backend/cpu is not built");
}
TestSuite(bench_out, .init = built);

/* How often text stands in out. */
static int times(const char *text)
{
  int n = 0;
  for (const char *p = out; (p = strstr(p, text)); p += strlen(text)) n++;
  return n;
}

Test(bench_out, table)
{
  cr_assert(eq(int, run(MODEL "-p 8 -n 3,5 -pg 8,2 -d 0,20 -b 1,2 -r 2 -t 1"), 0), "%s", out);
  cr_assert(strncmp(out, "| model  ", 9) == 0, "%s", out);
  cr_expect(eq(int, times("| model "), 1));
  cr_expect(eq(int, times(" t/s |  read % |   int % |"), 1), "%s", out);
  cr_expect(eq(int, times("\n| llama "), 16), "2 x 2 x 4 tests: %s", out);
  const char *names[] = {" pp8 |", " tg3 |", " tg5 |", " pp8+tg2 |", " pp8 @ d20 |", " pp8+tg2 @ d20 |"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) cr_expect(eq(int, times(names[i]), 2), "%s", names[i]);
  cr_expect(eq(int, times(" ± "), 16));
  cr_expect(eq(int, times("GB/s"), 2), "bounds of both engines");
  cr_expect(eq(int, times("\nbuild: "), 1));
  cr_assert(eq(int, run(MODEL "-p 0 -n 2 -r 1"), 0));
  cr_expect(eq(int, times(" seqs |"), 0));
  cr_expect(eq(int, times("\n| llama "), 1), "a test of nothing is left out");
}

/* llama-bench's fields come first and in its order. */
static const char *const fields[] = {"build_commit",   "build_number", "cpu_info",     "gpu_info",       "backends",
                                     "model_filename", "model_type",   "model_size",   "model_n_params", "n_batch",
                                     "n_ubatch",       "n_threads",    "cpu_mask",     "cpu_strict",     "poll",
                                     "type_k",         "type_v",       "n_gpu_layers", "split_mode",     "main_gpu",
                                     "no_kv_offload",  "flash_attn",   "tensor_split", "use_mmap",       "embeddings"};
static const char *const figures[] = {"n_prompt",  "n_gen",     "n_depth",  "test_time",  "avg_ns",    "stddev_ns",
                                      "avg_ts",    "stddev_ts", "n_seqs",   "bytes",      "int_ops",   "byte_ops",
                                      "byte_rate", "read_rate", "int_rate", "share_read", "share_int", "fingerprint"};

Test(bench_out, json)
{
  cr_assert(eq(int, run(MODEL "-p 16 -n 4 -d 10 -r 3 -o json --set compose.weights=int8"), 0), "%s", out);
  json_error_t err;
  json_t *all = json_loads(out, 0, &err);
  cr_assert(all != NULL, "%s: %s", err.text, out);
  cr_assert(eq(sz, json_array_size(all), 2));
  json_t *j = json_array_get(all, 1);
  void *at = json_object_iter(j);
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++, at = json_object_iter_next(j, at))
    cr_expect(eq(str, (char *)json_object_iter_key(at), (char *)fields[i]));
  for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
    cr_expect(json_object_get(j, figures[i]) != NULL, "%s", figures[i]);
  cr_expect(eq(i64, json_integer_value(json_object_get(j, "n_gen")), 4));
  cr_expect(eq(i64, json_integer_value(json_object_get(j, "n_depth")), 10));
  cr_expect(eq(sz, json_array_size(json_object_get(j, "samples_ns")), 3));
  cr_expect(eq(str, (char *)json_string_value(json_object_get(json_object_get(j, "composition"), "weights")), "int8"));
  double rate = json_number_value(json_object_get(j, "read_rate")),
         share = json_number_value(json_object_get(j, "share_read"));
  double bytes = json_number_value(json_object_get(j, "bytes")), ns = json_number_value(json_object_get(j, "avg_ns"));
  double want = bytes / (ns * 1e-9) / rate;
  cr_expect(share > 0.99 * want && share < 1.01 * want, "%g, want %g", share, want);
  json_decref(all);
}

Test(bench_out, json_lines_and_csv)
{
  cr_assert(eq(int, run(MODEL "-p 8 -n 2 -r 1 -o jsonl"), 0), "%s", out);
  for (char *line = out, *end; *line; line = end + 1) {
    end = strchr(line, '\n');
    cr_assert(end != NULL);
    *end = '\0';
    json_t *j = json_loads(line, 0, NULL);
    cr_assert(j != NULL, "%s", line);
    json_decref(j);
  }
  cr_assert(eq(int, run(MODEL "-p 8 -n 2 -r 1 -o csv"), 0), "%s", out);
  cr_expect(strncmp(out, "build_commit,build_number,cpu_info,", 35) == 0, "%s", out);
  int lines = times("\n"), commas[3] = {0}, at = 0;
  int quoted = 0;
  for (const char *p = out; *p && at < 3; p++) {
    quoted ^= *p == '"';
    commas[at] += *p == ',' && !quoted;
    at += *p == '\n';
  }
  cr_expect(eq(int, lines, 3));
  cr_expect(commas[0] > 30 && commas[0] == commas[1] && commas[1] == commas[2], "%d, %d, %d", commas[0], commas[1],
            commas[2]);
}

Test(bench_out, single_records)
{
  cr_assert(eq(int, run(MODEL "--ops -d 12 -r 1 -t 1"), 0), "%s", out);
  cr_expect(strncmp(out, "| op  ", 6) == 0, "%s", out);
  cr_expect(eq(int, times("\n| attend "), 7), "1, 2, 4, 8, 16, 32, 512 rows");
  cr_expect(eq(int, times("\n| output "), 6));
  cr_assert(eq(int, run(MODEL "--ops -d 12 -r 1 -t 1 -o jsonl"), 0), "%s", out);
  cr_expect(eq(int, times("\"op\":\"step\""), 7));
}

Test(bench_out, mistakes)
{
  static const char *const wrong[] = {"-p x",  "-n -1",    "-b 0",    "-t 0",  "-r 0",        "-o xml",
                                      "-pg 4", "--pg=4,0", "-d 1,,2", "model", "--set x -p 1"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    char args[256];
    snprintf(args, sizeof args, MODEL "%s 2>&1", wrong[i]);
    int code = run(args);
    cr_expect(code == 1 || code == 2, "%s: exit code %d: %s", wrong[i], code, out);
    cr_expect(strncmp(out, "tenon bench: ", 13) == 0, "%s: %s", wrong[i], out);
    cr_expect(eq(int, times("\n"), 1), "%s: %s", wrong[i], out);
  }
  cr_expect(eq(int, run(MODEL "-n 4 -p 0 --set compose.draft=ngram -o json 2>/dev/null"), 1));
  cr_expect(eq(str, out, "[]\n"), "what is printed stays JSON: %s", out);
}
