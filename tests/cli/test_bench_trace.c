/* `tenon bench --trace` as a user and as a program reads it, in simulated time on a tiny model. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define TENON TN_BUILD_DIR "/bin/tenon"
#define MODEL TN_SOURCE_DIR "/tests/data/tiny/llama.gguf"
#define AZURE TN_SOURCE_DIR "/tests/data/azure-conv-600.csv"
#define SIMULATED "bench -m " MODEL " --null-forward "

static char out[1 << 16], before[1 << 16];

/* A command of the shell; out receives its stdout (with "2>&1" in it: both). The exit code. */
static int sh(const char *command)
{
  FILE *f = popen(command, "r");
  cr_assert(f != NULL);
  out[fread(out, 1, sizeof out - 1, f)] = '\0';
  int rc = pclose(f);
  return WIFEXITED(rc) ? WEXITSTATUS(rc) : -1;
}

static int tenon(const char *args)
{
  char command[2048];
  snprintf(command, sizeof command, TENON " %s", args);
  return sh(command);
}

static void built(void)
{
  if (access(TENON, X_OK) != 0 || access(TN_BUILD_DIR "/lib/tenon/backend/cpu.so", R_OK) != 0)
    cr_skip_test("the command or the backend is not built");
}
TestSuite(cli_bench_trace, .init = built, .timeout = 120);

/* The labels of vLLM's block, in its order and columns; then what only Tenon knows. */
static const char *const labels[] = {
    "============ Serving Benchmark Result ============",
    "Successful requests:                     30",
    "Maximum request concurrency:             20",
    "Request rate configured (RPS):           200.00",
    "Benchmark duration (s):",
    "Total input tokens:                      1200",
    "Total generated tokens:                  300",
    "Request throughput (req/s):",
    "Request goodput (req/s):",
    "Output token throughput (tok/s):",
    "Peak output token throughput (tok/s):",
    "Peak concurrent requests:",
    "Total token throughput (tok/s):",
    "---------------Time to First Token----------------",
    "Mean TTFT (ms):",
    "Median TTFT (ms):",
    "P99 TTFT (ms):",
    "-----Time per Output Token (excl. 1st token)------",
    "Mean TPOT (ms):",
    "Median TPOT (ms):",
    "P99 TPOT (ms):",
    "---------------Inter-token Latency----------------",
    "Mean ITL (ms):",
    "Median ITL (ms):",
    "P99 ITL (ms):",
    "------------KV Cache (mean over time)-------------",
    "KV cache (MiB):",
    "Occupied (% of the cache):",
    "Filled (% of occupied):",
    "Internal waste (% of occupied):",
    "Temporary waste (% of occupied):",
    "External waste (% of occupied):",
    "Free while requests wait (% of cache):",
    "Mean running sequences:",
    "Peak running sequences:",
    "Preemptions:",
    "----------------------Steps-----------------------",
    "Steps:",
    "Tokens per step:",
    "Simulated time per step (ms):",
    "Host time per step (us):",
    "==================================================",
};

#define LOAD "--poisson 100 --speed 2 --requests 30 --prompt-tokens 40 --gen-tokens 10 --concurrency 20 "

Test(cli_bench_trace, labels)
{
  cr_assert(eq(int, tenon(SIMULATED LOAD "--target-ttft 100 --target-itl 20"), 0), "%s", out);
  char *line = out;
  for (size_t i = 0; i < sizeof labels / sizeof *labels; i++) {
    char *end = strchr(line, '\n');
    cr_assert(end != NULL, "the block ends before '%s'", labels[i]);
    *end = '\0';
    cr_expect(strncmp(line, labels[i], strlen(labels[i])) == 0, "line %zu: '%s', want '%s'", i, line, labels[i]);
    line = end + 1;
  }
  cr_expect(eq(str, line, ""));
}

/* The whole result but the host's own time is the same twice. */
Test(cli_bench_trace, same_again)
{
  const char *command = TENON " " SIMULATED LOAD "| grep -v '^Host time'";
  cr_assert(eq(int, sh(command), 0));
  strcpy(before, out);
  cr_assert(eq(int, sh(command), 0));
  cr_expect(eq(str, out, before));
  cr_assert(eq(int, sh(TENON " " SIMULATED LOAD "--seed 1 | grep -v '^Host time'"), 0));
  cr_expect(ne(str, out, before), "the seed says when requests arrive");
}

static json_t *json(void)
{
  json_error_t e;
  json_t *j = json_loads(out, 0, &e);
  cr_assert(j != NULL, "%s: %s", e.text, out);
  return j;
}

Test(cli_bench_trace, json_fields)
{
  static const char *const reals[] = {"duration",
                                      "request_throughput",
                                      "output_throughput",
                                      "total_token_throughput",
                                      "max_output_tokens_per_s",
                                      "mean_ttft_ms",
                                      "median_ttft_ms",
                                      "std_ttft_ms",
                                      "p99_ttft_ms",
                                      "mean_tpot_ms",
                                      "median_tpot_ms",
                                      "std_tpot_ms",
                                      "p99_tpot_ms",
                                      "mean_itl_ms",
                                      "median_itl_ms",
                                      "std_itl_ms",
                                      "p99_itl_ms",
                                      "mean_e2el_ms",
                                      "p99_e2el_ms",
                                      "request_rate"};
  cr_assert(eq(int, tenon(SIMULATED LOAD "-o json"), 0), "%s", out);
  json_t *j = json();
  for (size_t i = 0; i < sizeof reals / sizeof *reals; i++)
    cr_expect(json_real_value(json_object_get(j, reals[i])) > 0, "%s", reals[i]);
  const struct {
    const char *key;
    json_int_t want;
  } counts[] = {{"completed", 30},
                {"failed", 0},
                {"num_prompts", 30},
                {"total_input_tokens", 1200},
                {"total_output_tokens", 300},
                {"max_concurrency", 20}};
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
    cr_expect(json_integer_value(json_object_get(j, counts[i].key)) == counts[i].want, "%s", counts[i].key);
  bool plain = json_is_null(json_object_get(j, "request_goodput")) && json_is_false(json_object_get(j, "partial"));
  cr_expect(plain == true);
  json_decref(j);
  cr_assert(eq(int, tenon(SIMULATED LOAD "-o json --set compose.memory=paged,contiguous"), 0), "%s", out);
  j = json();
  cr_assert(json_array_size(j) == 2);
  cr_expect(eq(str, (char *)json_string_value(json_object_get(json_array_get(j, 1), "variant")),
               "compose.memory=contiguous"));
  json_decref(j);
}

/* Pages of 16 tokens waste less than one place in a hundred, on real lengths and with pages running out. */
Test(cli_bench_trace, waste_of_pages)
{
  cr_assert(eq(int,
               tenon(SIMULATED "--trace " AZURE " --speed 10 --max-tokens 1024 -o json --set engine.kv_budget=8M "
                               "--set compose.memory=paged --set memory.paged.page_tokens=16"),
               0),
            "%s", out);
  json_t *j = json(), *kv = json_object_get(j, "kv_cache");
  double waste = json_real_value(json_object_get(kv, "waste"));
  cr_expect(json_integer_value(json_object_get(j, "completed")) == 600);
  cr_expect(json_integer_value(json_object_get(kv, "preemptions")) > 0);
  cr_expect(waste > 0.001 && waste <= 0.01, "%g", waste);
  json_decref(j);
}

Test(cli_bench_trace, kv_waste_prints_a_table)
{
  cr_assert(eq(int,
               sh("python3 " TN_SOURCE_DIR "/contrib/bench/kv-waste --tenon " TENON " --requests 40 --pages 16,64 "
                  "--memory paged,static_paged --kv 8M " AZURE " " MODEL),
               0),
            "%s", out);
  int lines = 0;
  for (const char *p = out; *p; p++) lines += *p == '\n';
  cr_expect(eq(int, lines, 6));
  bool whole = strstr(out, "| memory | page | filled % |") == out && strstr(out, "\n| static_paged | 64 | ");
  cr_expect(whole, "%s", out);
}

/* A command that is refused says so, on its first line. */
static void says(int rc, const char *args, const char *text)
{
  char with[1024];
  snprintf(with, sizeof with, "bench -m " MODEL " %s 2>&1", args);
  cr_expect(eq(int, tenon(with), rc), "%s: %s", args, out);
  out[strcspn(out, "\n")] = '\0';
  bool there = strstr(out, text) != NULL;
  cr_expect(there, "%s: '%s', want '%s'", args, out, text);
}

Test(cli_bench_trace, refusals)
{
  says(2, "--speed 2", "--speed says something about --trace or --poisson only");
  says(2, "--trace x --poisson 1", "--trace and --poisson exclude each other");
  says(2, "--poisson 1 -n 5", "--n-gen is for tests of fixed length");
  says(2, "--poisson 1 --step-cost 1,2", "--step-cost is for --null-forward");
  says(2, "--poisson 1 --null-forward --step-cost 5", "want microseconds of a step and of a token");
  says(2, "--poisson 1 --url http://h --null-forward", "not the server of --url");
  says(2, "--poisson nan", "want a number above 0");
  says(1, "--trace no.csv", "no.csv: cannot be opened");
  says(1, "--trace " MODEL, "no trace: want a header");
  says(1, "--trace " AZURE " --rate 2", "has arrivals of its own");
  says(1, "--trace " AZURE " --gen-tokens 2", "has lengths of its own");
  says(1, "--poisson 1 --url http://127.0.0.1:1", "127.0.0.1");
}
