/* `tenon eval` as a user meets it, on a tiny model. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define TINY " -m " TN_SOURCE_DIR "/tests/data/tiny/llama.gguf "
#define HAYSTACK " -f " TN_SOURCE_DIR "/tests/data/wikitext-2-valid-60k.txt "
#define TEXT HAYSTACK "-c 64 "

static char out[1 << 16], dir[64];

/* `tenon eval <args>` through the shell; out receives what it prints. The exit code. */
static int eval(const char *args)
{
  char command[2048];
  snprintf(command, sizeof command, "cd %s && %s/bin/tenon eval %s", dir, TN_BUILD_DIR, args);
  FILE *f = popen(command, "r");
  cr_assert(f != NULL);
  out[fread(out, 1, sizeof out - 1, f)] = '\0';
  int rc = pclose(f);
  return WIFEXITED(rc) ? WEXITSTATUS(rc) : -1;
}

static json_t *json_of(const char *args)
{
  cr_assert(eq(int, eval(args), 0), "%s: %s", args, out);
  json_t *j = json_loads(out, 0, NULL);
  cr_assert(j != NULL, "%s", out);
  return j;
}

static double at(const json_t *j, const char *a, const char *b, const char *c)
{
  const json_t *v = json_object_get(j, a);
  if (b) v = json_object_get(v, b);
  if (c) v = json_object_get(v, c);
  cr_assert(v && json_is_number(v), "no number %s %s %s", a, b ? b : "", c ? c : "");
  return json_number_value(v);
}

static void setup(void)
{
  if (access(TN_BUILD_DIR "/bin/tenon", X_OK) != 0 || access(TN_BUILD_DIR "/lib/tenon/backend/cpu.so", R_OK) != 0)
    cr_skip_test("the command or the backend is not built");
  unsetenv("TN_PATH");
  setenv("XDG_CACHE_HOME", TN_BUILD_DIR "/tests/cache", 1); /* not the user's */
  strcpy(dir, "/tmp/tenon-eval-XXXXXX");
  cr_assert(mkdtemp(dir) != NULL);
}

static void teardown(void)
{
  char command[128];
  snprintf(command, sizeof command, "rm -rf %s", dir);
  if (*dir) cr_assert(system(command) == 0);
}
TestSuite(cli_eval, .init = setup, .fini = teardown, .timeout = 100);

Test(cli_eval, kld_of_the_same_composition_is_0)
{
  json_t *j = json_of("kld" TINY TEXT "--chunks 2 --ref-set compose.kv= --buckets 2 --json 2>/dev/null");
  cr_expect(eq(dbl, at(j, "stats", "kld", "value"), 0.0));
  cr_expect(eq(dbl, at(j, "stats", "kld_quantiles", "max"), 0.0));
  cr_expect(eq(dbl, at(j, "stats", "same_top", "value"), 1.0));
  cr_expect(eq(dbl, at(j, "stats", "ppl", "value"), at(j, "stats", "ppl_base", "value")));
  cr_expect(eq(int, (int)at(j, "n_scored", NULL, NULL), 62));
  cr_expect(eq(sz, json_array_size(json_object_get(j, "buckets")), 2));
  cr_expect(json_object_get(j, "partial") == json_false());
  json_decref(j);
}

/* Every line of the report that other tools' users look for. */
Test(cli_eval, the_report_has_all_lines)
{
  static const char *const lines[] = {"Mean PPL(Q)  ",
                                      "Mean PPL(base)  ",
                                      "Cor(ln(PPL(Q)), ln(PPL(base))): ",
                                      "Mean ln(PPL(Q)/PPL(base))  ",
                                      "Mean PPL(Q)/PPL(base)  ",
                                      "Mean PPL(Q)-PPL(base)  ",
                                      "Mean    KLD: ",
                                      "Maximum KLD: ",
                                      "99.9%   KLD: ",
                                      "99.0%   KLD: ",
                                      "95.0%   KLD: ",
                                      "90.0%   KLD: ",
                                      "Median  KLD: ",
                                      "10.0%   KLD: ",
                                      " 5.0%   KLD: ",
                                      " 1.0%   KLD: ",
                                      " 0.1%   KLD: ",
                                      "Minimum KLD: ",
                                      "Mean    Δp: ",
                                      "Maximum Δp: ",
                                      "Median  Δp: ",
                                      "Minimum Δp: ",
                                      "RMS Δp    : ",
                                      "Same top p: ",
                                      "62 tokens scored in 2 of 2 chunks; composition "};
  cr_assert(eq(int, eval("kld" TINY TEXT "--chunks 2 --ref-set compose.kv=int8 2>&1"), 0), "%s", out);
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
    cr_expect(strstr(out, lines[i]) != NULL, "no '%s'", lines[i]);
}

Test(cli_eval, a_base_stands_for_its_composition)
{
  json_t *live = json_of("kld" TINY TEXT "--chunks 3 --ref-set compose.kv=int8 --save-base b.kld --json");
  json_t *base = json_of("kld" TINY "--base b.kld --json"),
         *some = json_of("kld" TINY "--base b.kld --chunks 2 --json");
  double kld = at(live, "stats", "kld", "value");
  cr_expect(epsilon_eq(dbl, at(base, "stats", "kld", "value"), kld, 2e-3 * kld));
  cr_expect(epsilon_eq(dbl, at(base, "stats", "ppl_base", "value"), at(live, "stats", "ppl_base", "value"), 1));
  cr_expect(eq(int, (int)at(some, "n_scored", NULL, NULL), 62));
  cr_expect(eq(int, eval("kld" TINY "--base b.kld -c 32 2>&1"), 1));
  cr_expect(strstr(out, "-c 32: b.kld was recorded with chunks of 64 tokens") != NULL, "%s", out);
  json_t *whole = json_of("ppl" TINY TEXT "--chunks 2 --prompt 20 --save-base c.kld --compact 128 --json");
  json_t *back = json_of("kld" TINY "--base c.kld --json");
  cr_expect(epsilon_eq(dbl, at(back, "stats", "ppl_base", "value"), at(whole, "ppl", NULL, NULL), 0.01));
  cr_expect(lt(dbl, at(back, "stats", "kld", "value"), 1e-6));
  json_t *all[] = {live, base, some, whole, back};
  for (size_t i = 0; i < 5; i++) json_decref(all[i]);
}

Test(cli_eval, goes_on_where_it_ended)
{
  json_t *first = json_of("ppl" TINY TEXT "--chunks 2 --resume s.jsonl --json"),
         *more = json_of("ppl" TINY TEXT "--chunks 4 --resume s.jsonl --json"),
         *whole = json_of("ppl" TINY TEXT "--chunks 4 --json");
  cr_expect(eq(dbl, at(more, "ppl", NULL, NULL), at(whole, "ppl", NULL, NULL)));
  cr_expect(ne(dbl, at(more, "ppl", NULL, NULL), at(first, "ppl", NULL, NULL)));
  cr_expect(eq(int, eval("ppl" TINY TEXT "--prompt 20 --resume s.jsonl 2>&1"), 1));
  cr_expect(strstr(out, "n_prompt is 32 there and 20 here") != NULL, "%s", out);
  json_decref(first);
  json_decref(more);
  json_decref(whole);
}

/* SIGINT ends the run after whole chunks, and the result says so. */
Test(cli_eval, an_interrupt_gives_the_partial_result)
{
  char command[512];
  snprintf(command, sizeof command,
           "cd %s && (timeout -s INT 2 %s/bin/tenon eval ppl -t 1" TINY TEXT
           "--set compose.backend=ref --json; echo $? >code)",
           dir, TN_BUILD_DIR);
  FILE *f = popen(command, "r");
  cr_assert(f != NULL);
  out[fread(out, 1, sizeof out - 1, f)] = '\0';
  pclose(f);
  json_t *j = json_loads(out, 0, NULL);
  if (j && json_is_true(json_object_get(j, "partial")))
    cr_expect(lt(dbl, at(j, "n_done", NULL, NULL), at(j, "n_chunks", NULL, NULL)));
  cr_expect(j != NULL, "%s", out);
  json_decref(j);
}

Test(cli_eval, untrained_compositions_are_marked)
{
  json_t *j =
      json_of("ppl" TINY TEXT "--chunks 2 --conf " TN_SOURCE_DIR "/conf/techniques/dilated.ini --json 2>/dev/null");
  const json_t *u = json_array_get(json_object_get(j, "untrained"), 0);
  cr_expect(eq(str, (char *)json_string_value(json_object_get(u, "plugin")), "dilated"));
  json_decref(j);
  cr_assert(
      eq(int, eval("ppl" TINY TEXT "--chunks 2 --conf " TN_SOURCE_DIR "/conf/techniques/dilated.ini 2>/dev/null"), 0));
  cr_expect(
      strstr(out, "untrained: the tested composition has attention = dilated, which the model was not trained for") !=
          NULL,
      "%s", out);
}

Test(cli_eval, recall_by_depth_and_length)
{
  json_t *j = json_of("passkey" TINY "-l 400,500 -d 3 -n 2 --resume s.jsonl --json 2>/dev/null"), *again, *cells;
  cells = json_object_get(j, "cells");
  cr_assert(eq(sz, json_array_size(cells), 6));
  cr_expect(eq(dbl, at(json_array_get(cells, 1), "depth", NULL, NULL), 0.5));
  cr_expect(lt(dbl, at(json_array_get(cells, 1), "loglik", NULL, NULL), 0.0));
  again = json_of("passkey" TINY "-l 400,500 -d 3 -n 2 --resume s.jsonl --json 2>/dev/null");
  cr_expect(json_equal(cells, json_object_get(again, "cells")), "a state that is whole gives other figures");
  json_decref(j);
  json_decref(again);
  cr_assert(eq(int, eval("needle" TINY HAYSTACK "-l 500 -d 2 2>/dev/null"), 0), "%s", out);
  cr_expect(strstr(out, "needle: ") && strstr(out, "over 2 texts") && strstr(out, "\n  100 % ") && !strchr(out, '\033'),
            "%s", out);
}

static void put_file(const char *name, const char *text)
{
  char path[128];
  snprintf(path, sizeof path, "%s/%s", dir, name);
  FILE *f = fopen(path, "w");
  cr_assert(f != NULL && fputs(text, f) >= 0 && fclose(f) == 0);
}

Test(cli_eval, tasks_and_match)
{
  put_file("q.jsonl", "{\"context\": \"a b\", \"choices\": [\"c\", \"d\"], \"gold\": 0}\n"
                      "{\"context\": \"a b\", \"choices\": [\"c\", \"d\"], \"gold\": 1}\n");
  json_t *j = json_of("tasks" TINY "-f q.jsonl --json");
  cr_expect(eq(dbl, at(j, "acc", NULL, NULL), 0.5), "the same question with both answers");
  cr_expect(eq(dbl, at(j, "acc_norm", NULL, NULL), 0.5));
  cr_expect(epsilon_eq(dbl, at(j, "acc_stderr", NULL, NULL), 0.5, 1e-12));
  json_decref(j);
  put_file("p.txt", "It rained.\n{\"prompt\": \"Later\"}\n");
  j = json_of("match" TINY "-f p.txt -n 8 --ref-set compose.kv= --json 2>/dev/null");
  cr_expect(eq(dbl, at(j, "exact_match", NULL, NULL), 1.0));
  cr_expect(eq(dbl, at(j, "tokens_equal", NULL, NULL), at(j, "tokens_reference", NULL, NULL)));
  json_decref(j);
}

Test(cli_eval, mistakes)
{
  static const struct {
    const char *args, *words;
    int code;
  } all[] = {{"pppl 2>&1", "did you mean 'ppl'?", 2},
             {"kld" TINY TEXT "2>&1", "nothing to compare with: give --ref FILE", 2},
             {"kld" TINY "--ref-set compose.kv=int8 2>&1", "no text: give -f FILE", 2},
             {"kld" TINY TEXT "--base x 2>&1", "--base brings text and reference", 2},
             {"ppl" TINY TEXT "--compact 5 2>&1", "--compact says how --save-base records", 2},
             {"ppl" TINY TEXT "--prompt 63 2>&1", "a prompt of 63 tokens in chunks of 64: must be from 1 to 62", 1},
             {"kld" TINY "--base no 2>&1", "no: cannot be opened: No such file or directory", 1},
             {"needle" TINY "2>&1", "no haystack: give -f FILE", 2},
             {"tasks" TINY "2>&1", "no questions: give -f FILE", 2}};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    cr_expect(eq(int, eval(all[i].args), all[i].code), "%s: %s", all[i].args, out);
    cr_expect(strstr(out, all[i].words) != NULL, "%s: %s", all[i].args, out);
  }
}
