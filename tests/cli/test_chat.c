/* `tenon chat` without a terminal, on a tiny model: the cache goes on, commands, errors, Ctrl-C. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MODEL TN_SOURCE_DIR "/tests/data/tiny/llama.gguf"
#define BARE TN_SOURCE_DIR "/tests/data/tiny/gemma3.gguf" /* without a template */
#define CHAT TN_BUILD_DIR "/bin/tenon chat -m " MODEL " --chat-template t.jinja "

static char out[1 << 18], dir[64];

/* A shell command in the test's folder; out receives stdout. The exit code. */
static int shell(const char *command)
{
  char all[4096];
  snprintf(all, sizeof all, "cd %s && %s", dir, command);
  FILE *f = popen(all, "r");
  cr_assert(f != NULL);
  out[fread(out, 1, sizeof out - 1, f)] = '\0';
  int rc = pclose(f);
  return WIFEXITED(rc) ? WEXITSTATUS(rc) : -1;
}

static void setup(void)
{
  if (access(TN_BUILD_DIR "/bin/tenon", X_OK) != 0 || access(TN_BUILD_DIR "/lib/tenon/backend/cpu.so", R_OK) != 0)
    cr_skip_test("the command or the backend is not built");
  if (access(MODEL, R_OK) != 0) cr_skip_test("there is no " MODEL);
  unsetenv("TN_PATH");
  setenv("XDG_CACHE_HOME", TN_BUILD_DIR "/tests/cache", 1); /* not the user's */
  strcpy(dir, "/tmp/tenon-chat-XXXXXX");
  cr_assert(mkdtemp(dir) != NULL);
  cr_assert(shell("echo '{% for m in messages %}{{ eos_token }}{{ m.role[0] }}{{ m.content }}{% endfor %}"
                  "{% if add_generation_prompt %}{{ eos_token }}a{% endif %}' >t.jinja") == 0);
}

static void teardown(void)
{
  char command[128];
  snprintf(command, sizeof command, "rm -rf %s", dir);
  if (*dir) cr_assert(system(command) == 0);
}
TestSuite(cli_chat, .init = setup, .fini = teardown, .timeout = 60);

/* The answers of --json, one a line. The caller's. */
static json_t *answers(void)
{
  json_t *list = json_array();
  for (char *line = strtok(out, "\n"); line; line = strtok(NULL, "\n")) {
    json_t *j = json_loads(line, 0, NULL);
    cr_assert(j != NULL, "%s", line);
    json_array_append_new(list, j);
  }
  return list;
}

static long long figure(const json_t *list, size_t i, const char *key)
{
  return (long long)json_integer_value(json_object_get(json_array_get(list, i), key));
}

Test(cli_chat, only_what_is_new_is_run)
{
  cr_assert(eq(
      int, shell("printf 'hello there\\nand more\\n/set compose.kv=int8\\nlast\\n' | " CHAT "--json -n 12 2>err"), 0));
  json_t *a = answers();
  cr_assert(eq(sz, json_array_size(a), 3));
  long long first = figure(a, 0, "prompt_n"), n = figure(a, 0, "predicted_n");
  cr_expect(first >= 8 && figure(a, 0, "cached_n") == 0, "%lld", first);
  cr_expect(eq(int, n, 12));
  cr_expect(figure(a, 1, "cached_n") >= first + n - 1, "%lld of %lld", figure(a, 1, "cached_n"), first + n);
  cr_expect(figure(a, 1, "prompt_n") < 16, "%lld", figure(a, 1, "prompt_n"));
  cr_expect(figure(a, 2, "cached_n") == 0, "another composition has another cache");
  cr_expect(figure(a, 2, "prompt_n") > figure(a, 1, "prompt_n") + figure(a, 1, "cached_n"));
  json_decref(a);
}

Test(cli_chat, commands)
{
  cr_expect(
      eq(int, shell("printf 'abc\\n/save c.json\\n/reset\\nabc\\n/plan\\n/help\\n/quit\\nxyz\\n' | " CHAT "-n 8 2>err"),
         0));
  char *second = strchr(out, '\n');
  cr_assert(second != NULL);
  *second++ = '\0';
  second[strcspn(second, "\n")] = '\0';
  cr_expect(eq(str, out, second), "the same conversation again has the same answer");
  cr_assert(eq(int, shell("cat err"), 0));
  cr_expect(strstr(out, "2 messages are in c.json") != NULL, "%s", out);
  cr_expect(strstr(out, "composition = ") != NULL && strstr(out, "/set S.K=V") != NULL, "%s", out);
  cr_assert(eq(int, shell("cat c.json"), 0));
  json_t *j = json_loads(out, 0, NULL), *m = json_object_get(j, "messages");
  cr_expect(eq(sz, json_array_size(m), 2));
  cr_expect(eq(str, (char *)json_string_value(json_object_get(json_array_get(m, 1), "role")), "assistant"));
  json_decref(j);
  cr_assert(
      eq(int, shell("printf 'more\\n/save d.json\\n' | " CHAT "--load c.json -n 4 2>err && grep -c role d.json"), 0));
  cr_expect(strstr(out, "\n4\n") != NULL, "%s", out);
}

Test(cli_chat, what_goes_wrong_is_said_and_the_talk_goes_on)
{
  cr_expect(
      eq(int, shell("printf '/sav x\\n/save\\n/set nothing\\n/set compose.kv=int9\\nabc\\n' | " CHAT "-n 4 2>&1"), 0));
  cr_expect(strstr(out, "tenon chat: no command /sav; did you mean /save?") != NULL, "%s", out);
  cr_expect(strstr(out, "/save: to which file?") != NULL && strstr(out, "/set: want section.key=value") != NULL, "%s",
            out);
  cr_expect(strstr(out, "int9") != NULL, "%s", out);
  cr_expect(strstr(out, "4 tokens") != NULL, "the last message is answered: %s", out);
  cr_expect(eq(int, shell("printf '\\377\\nabc\\n' | " CHAT "-n 4 2>&1"), 1));
  cr_expect(strstr(out, "is no UTF-8") != NULL && strstr(out, "4 tokens") != NULL, "%s", out);
}

Test(cli_chat, templates)
{
  cr_expect(eq(int, shell("echo a | " TN_BUILD_DIR "/bin/tenon chat -m " BARE " 2>&1"), 1));
  cr_expect(strstr(out, "has no chat template (tokenizer.chat_template)") != NULL, "%s", out);
  cr_expect(eq(int, shell("echo a | " TN_BUILD_DIR "/bin/tenon chat -m " MODEL " --chat-template chatmm 2>&1"), 1));
  cr_expect(strstr(out, "chat template chatmm: no template of that name (chatml, ") != NULL, "%s", out);
  cr_expect(eq(int, shell("echo a | " TN_BUILD_DIR "/bin/tenon chat -m " MODEL " --chat-template chatml -n 2 2>&1"), 0),
            "%s", out);
  cr_expect(eq(int,
               shell("echo \"{{ raise_exception('not ' ~ messages[0].content) }}\" >r.jinja && echo so | " TN_BUILD_DIR
                     "/bin/tenon chat -m " MODEL " --chat-template r.jinja 2>&1"),
               1));
  cr_expect(strstr(out, "tenon chat: the chat template refuses the messages: not so") != NULL, "%s", out);
}

Test(cli_chat, interrupt_stops_the_answer_and_not_the_program)
{
  cr_assert(eq(int,
               shell("mkfifo f && { " CHAT "-c 60000 --ignore-eos <f >o 2>e & } ; p=$!; exec 3>f; echo abc >&3; "
                     "wait_for() { for i in $(seq 400); do eval \"$1\" && return; sleep 0.05; done; kill -9 $p; }; "
                     "wait_for '[ -s o ]'; kill -INT $p; wait_for 'grep -q stopped e'; echo /plan >&3; exec 3>&-; "
                     "wait $p"),
               0));
  cr_assert(eq(int, shell("cat e"), 0));
  cr_expect(strstr(out, ", stopped]") != NULL && strstr(out, "composition = ") != NULL, "%s", out);
}
