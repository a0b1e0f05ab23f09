/* `tenon ab` as a user meets it, on a tiny model: what it refuses, what it reports, and that a kept run says the same. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MODEL TN_SOURCE_DIR "/tests/data/tiny/llama.gguf"
#define OTHER TN_SOURCE_DIR "/tests/data/tiny/gemma3.gguf"
#define AB "ab -m " MODEL " -t 1 -r 10 -n 8 -s 3 -p 'one two three' -p 'four five six seven' "

static char out[1 << 18], dir[64];

/* `tenon <args>` through the shell in the folder; out receives stdout. The exit code. */
static int tenon(const char *args)
{
  char command[2048];
  snprintf(command, sizeof command, "cd %s && %s/bin/tenon %s", dir, TN_BUILD_DIR, args);
  FILE *f = popen(command, "r");
  cr_assert(f != NULL);
  out[fread(out, 1, sizeof out - 1, f)] = '\0';
  int rc = pclose(f);
  return WIFEXITED(rc) ? WEXITSTATUS(rc) : -1;
}

static void file(const char *name, const char *text)
{
  char path[128];
  snprintf(path, sizeof path, "%s/%s", dir, name);
  FILE *f = fopen(path, "w");
  cr_assert(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

static void setup(void)
{
  if (access(TN_BUILD_DIR "/bin/tenon", X_OK) != 0 || access(TN_BUILD_DIR "/lib/tenon/backend/cpu.so", R_OK) != 0)
    cr_skip_test("the command or the backend is not built");
  unsetenv("TN_PATH");
  setenv("XDG_CACHE_HOME", TN_BUILD_DIR "/tests/cache", 1); /* not the user's */
  strcpy(dir, "/tmp/tenon-ab-XXXXXX");
  cr_assert(mkdtemp(dir) != NULL);
  file("a.ini", "include = default.ini\n");
  file("b.ini", "include = default.ini\n[compose]\nmemory = contiguous\n");
  file("c.ini", "include = default.ini\n[compose]\neviction = streaming_llm\n");
}

static void teardown(void)
{
  char command[128];
  snprintf(command, sizeof command, "rm -rf %s", dir);
  if (*dir) cr_assert(system(command) == 0);
}
TestSuite(cli_ab, .init = setup, .fini = teardown, .timeout = 120);

static json_t *comparison(json_t *j, const char *metric)
{
  size_t i;
  json_t *c;
  json_array_foreach(json_object_get(j, "comparisons"), i, c)
  {
    if (strcmp(json_string_value(json_object_get(c, "metric")), metric) == 0) return c;
  }
  cr_assert(c != NULL, "no comparison of %s", metric);
  return NULL;
}

Test(cli_ab, two_variants_and_their_kept_run)
{
  cr_assert(eq(int, tenon(AB "--json a.ini b.ini -o kept 2>err"), 0), "%s", out);
  json_t *j = json_loads(out, 0, NULL);
  cr_assert(j != NULL, "%s", out);
  cr_expect(eq(int, (int)json_integer_value(json_object_get(j, "pairs")), 10));
  cr_expect(json_number_value(json_object_get(comparison(j, "decode_tps"), "p_holm")) > 0);
  cr_expect(json_number_value(json_object_get(comparison(j, "exact_match"), "value")) == 1.0, "same tokens");
  cr_expect(strcmp(json_string_value(json_object_get(comparison(j, "exact_match"), "verdict")), "equal") == 0);
  cr_assert(eq(int, tenon("ab --json --replay kept"), 0));
  json_t *again = json_loads(out, 0, NULL);
  cr_assert(again != NULL);
  cr_expect(json_equal(json_object_get(j, "comparisons"), json_object_get(again, "comparisons")));
  json_decref(j), json_decref(again);
  cr_expect(eq(int, tenon("ab --replay kept"), 0));
  cr_expect(strstr(out, "10 pairs, 2 prompts, 8 tokens each, seed 3") == out, "%s", out);
  char command[256];
  snprintf(command, sizeof command, "cd %s/kept && ls A.ini B.ini report.html result.json samples.jsonl >/dev/null",
           dir);
  cr_expect(eq(int, system(command), 0));
  cr_expect(eq(int, tenon(AB "a.ini b.ini -o kept 2>&1"), 1), "a kept run is not overwritten");
  cr_expect(strstr(out, "-o kept: cannot be made: File exists") != NULL, "%s", out);
}

Test(cli_ab, quality_beside_speed)
{
  cr_assert(eq(int,
               tenon(AB "--json a.ini b.ini --set compose.kv=- --chunk-size 16 --chunks 4 --text " TN_SOURCE_DIR
                        "/tests/data/wikitext-2-valid-60k.txt 2>err"),
               0));
  json_t *j = json_loads(out, 0, NULL);
  cr_assert(j != NULL, "%s", out);
  cr_expect(json_number_value(json_object_get(comparison(j, "kld"), "value")) == 0.0, "the same bits");
  cr_expect(json_number_value(json_object_get(comparison(j, "ppl"), "difference")) == 0.0);
  cr_expect(strcmp(json_string_value(json_object_get(comparison(j, "ppl"), "verdict")), "equal") == 0);
  json_decref(j);
}

/* Whether the text has enough chunks for a verdict is known, and said, before anything runs. */
Test(cli_ab, too_few_chunks)
{
  cr_assert(eq(int,
               tenon(AB "a.ini b.ini --chunk-size 16 --chunks 4 --estimate --text " TN_SOURCE_DIR
                        "/tests/data/wikitext-2-valid-60k.txt 2>&1"),
               0));
  cr_expect(strstr(out, "4 chunks cannot show any difference in perplexity or divergence over 6 tests: there will be "
                        "10") != NULL,
            "%s", out);
  file("short.txt", "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen\n");
  cr_expect(eq(int, tenon(AB "a.ini b.ini --chunk-size 32 --estimate --text short.txt 2>&1"), 0), "%s", out);
  cr_expect(strstr(out, "too few to see any difference in perplexity") && strstr(out, "takes at least 8"), "%s", out);
  cr_expect(eq(int, tenon(AB "a.ini b.ini --estimate --text none.txt 2>&1"), 1));
  cr_expect(strstr(out, "none.txt: ") != NULL, "%s", out);
}

Test(cli_ab, guards)
{
  cr_expect(eq(int, tenon(AB "a.ini c.ini 2>&1"), 1));
  cr_expect(strstr(out, "not engaged on the longest prompt") &&
                strstr(out, "eviction = streaming_llm (dropped no token"),
            "%s", out);
  cr_expect(eq(int, tenon(AB "a.ini c.ini --allow-idle 2>&1"), 0));
  cr_expect(strstr(out, "not engaged") != NULL);
  cr_expect(eq(int, tenon(AB "a.ini a.ini 2>&1"), 0));
  cr_expect(strstr(out, "are the same composition: this is an A/A run") != NULL, "%s", out);
  file("d.ini", "include = default.ini\n[model]\npath = " OTHER "\n");
  file("e.ini", "include = default.ini\n[model]\npath = " MODEL "\n");
  cr_expect(eq(int, tenon("ab e.ini d.ini 2>&1"), 1));
  cr_expect(strstr(out, "what differs would be the models") != NULL, "%s", out);
}

Test(cli_ab, grid)
{
  cr_assert(eq(int, tenon(AB "--json --grid 'attention=linear,full kv=int8,-' 2>err"), 0), "%s", out);
  json_t *j = json_loads(out, 0, NULL);
  cr_assert(j != NULL);
  cr_expect(eq(
      int, (int)(json_array_size(json_object_get(j, "variants")) + json_array_size(json_object_get(j, "refused"))), 4));
  cr_expect(json_array_size(json_object_get(j, "refused")) > 0);
  json_decref(j);
}

Test(cli_ab, mistakes)
{
  cr_expect(eq(int, tenon("ab a.ini 2>&1"), 2));
  cr_expect(strstr(out, "1 INI files: want 2 to 32") != NULL, "%s", out);
  cr_expect(eq(int, tenon(AB "--grid kv 2>&1"), 2));
  cr_expect(strstr(out, "--grid: 'kv': want KEY=VALUE,VALUE,...") != NULL, "%s", out);
  cr_expect(eq(int, tenon(AB "-r 5 a.ini b.ini 2>&1"), 2), "five pairs can never reach significance");
  cr_expect(eq(int, tenon(AB "--until 0 a.ini b.ini 2>&1"), 2));
  cr_expect(eq(int, tenon(AB "a.ini none.ini 2>&1"), 1));
  cr_expect(strstr(out, "none.ini: ") != NULL, "%s", out);
  cr_expect(eq(int, tenon(AB "a.ini b.ini --estimate 2>&1"), 0));
  cr_expect(strstr(out, "10 pairs of 2 variants take about") != NULL, "%s", out);
}
