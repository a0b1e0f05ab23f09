/* chat_command: lines of a chat that begin with a slash. */
#include <stdlib.h>
#include <string.h>

#include "cli/chat_int.h"
#include "config/config.h"

#define LOAD_MAX ((size_t)64 << 20)

tn_status chat_load(chat_session *s, const char *path, tn_err *err)
{
  char *bytes;
  size_t n;
  tn_status st = tn_file_read(path, LOAD_MAX, &bytes, &n, err);
  if (st != TN_OK) return st;
  json_error_t why;
  json_t *j = json_loadb(bytes, n, 0, &why);
  free(bytes);
  if (!j) return tn_fail(err, TN_E_ARG, "%s: line %d: %s", path, why.line, why.text);
  json_t *list = json_is_object(j) ? json_object_get(j, "messages") : j, *m;
  size_t i;
  if (!json_is_array(list)) st = tn_fail(err, TN_E_ARG, "%s: want an array of messages, or an object with one", path);
  json_array_foreach(list, i, m)
  {
    if (st == TN_OK && !json_is_string(json_object_get(m, "role")))
      st = tn_fail(err, TN_E_ARG, "%s: message %zu has no role", path, i + 1);
  }
  if (st == TN_OK) {
    chat_forget_cache(s);
    json_array_clear(s->messages);
    if (json_array_extend(s->messages, list) != 0) st = tn_fail(err, TN_E_NOMEM, "no memory for %s", path);
  }
  json_decref(j);
  return st;
}

tn_status chat_save(const chat_session *s, const char *path, tn_err *err)
{
  json_t *j = json_pack("{s:O}", "messages", s->messages);
  tn_status st = j ? TN_OK : tn_fail(err, TN_E_NOMEM, "no memory to save the conversation");
  if (st == TN_OK && json_dump_file(j, path, JSON_INDENT(2)) != 0)
    st = tn_fail(err, TN_E_IO, "%s: cannot be written", path);
  json_decref(j);
  return st;
}

/* ---------------------------------------------------------------- commands */

static void say(const chat_session *s, tn_status st, const tn_err *err)
{
  if (st != TN_OK) tn_cli_fail(&s->a->cli, err);
}

static int c_help(chat_session *s, const char *arg)
{
  (void)s;
  (void)arg;
  chat_command_help(stderr);
  return CHAT_GO;
}

static int c_reset(chat_session *s, const char *arg)
{
  (void)arg;
  if (!chat_reset(s)) return CHAT_QUIT;
  fputs("the conversation begins anew\n", stderr);
  return CHAT_GO;
}

static int c_plan(chat_session *s, const char *arg)
{
  (void)arg;
  char *summary = tn_composition_summary(s->setup.composition), print[TN_FINGERPRINT_HEX + 1];
  tn_composition_short(s->setup.composition, print);
  if (summary) fprintf(stderr, "%scomposition = %s\n", summary, print);
  free(summary);
  return CHAT_GO;
}

static int c_save(chat_session *s, const char *arg)
{
  tn_err err = tn_err_init();
  tn_status st = *arg ? chat_save(s, arg, &err) : tn_fail(&err, TN_E_ARG, "/save: to which file?");
  say(s, st, &err);
  if (st == TN_OK) fprintf(stderr, "%zu messages are in %s\n", json_array_size(s->messages), arg);
  return CHAT_GO;
}

static int c_load(chat_session *s, const char *arg)
{
  tn_err err = tn_err_init();
  tn_status st = *arg ? chat_load(s, arg, &err) : tn_fail(&err, TN_E_ARG, "/load: which file?");
  say(s, st, &err);
  if (st == TN_OK) fprintf(stderr, "%zu messages\n", json_array_size(s->messages));
  return CHAT_GO;
}

/* The engine is opened with the option; where that fails it is opened as it was. The conversation goes on. */
static int c_set(chat_session *s, const char *arg)
{
  tn_engine_args *e = &s->a->engine;
  tn_err err = tn_err_init();
  if (!strchr(arg, '=')) {
    say(s, tn_fail(&err, TN_E_ARG, "/set: want section.key=value, as in /set engine.threads=4"), &err);
    return CHAT_GO;
  }
  if (e->n_sets == TN_MAX_SETS || e->n_owned == TN_ARRAY_LEN(e->owned)) {
    say(s, tn_fail(&err, TN_E_ARG, "/set: over %u options", TN_MAX_SETS), &err);
    return CHAT_GO;
  }
  char *own = tn_strdup(arg);
  if (!own) return CHAT_QUIT;
  e->owned[e->n_owned++] = own;
  e->from[e->n_sets] = NULL;
  e->sets[e->n_sets++] = own;
  chat_close(s);
  if (chat_open(s) == TN_EXIT_OK) {
    fprintf(stderr, "%s is set; the next answer runs the whole conversation\n", arg);
    return CHAT_GO;
  }
  chat_close(s);
  e->n_sets--;
  return chat_open(s) == TN_EXIT_OK ? CHAT_GO : CHAT_QUIT;
}

static int c_quit(chat_session *s, const char *arg)
{
  (void)s;
  (void)arg;
  return CHAT_QUIT;
}

static const struct {
  const char *name, *arg, *help;
  int (*run)(chat_session *s, const char *arg);
} commands[] = {
    {"/help", "", "this list", c_help},
    {"/reset", "", "forgets the conversation", c_reset},
    {"/set", " S.K=V", "sets an option and opens the engine with it; the conversation stays", c_set},
    {"/plan", "", "the composition in force", c_plan},
    {"/save", " FILE", "the conversation as JSON", c_save},
    {"/load", " FILE", "a conversation that was saved, or messages as OpenAI's API has them", c_load},
    {"/quit", "", "ends, as Ctrl-D does", c_quit},
};

void chat_command_help(FILE *out)
{
  for (size_t i = 0; i < TN_ARRAY_LEN(commands); i++)
    fprintf(out, "  %s%-*s %s\n", commands[i].name, (int)(14 - strlen(commands[i].name)), commands[i].arg,
            commands[i].help);
  fputs("  Ctrl-C stops an answer; a line that ends in \\ goes on in the next\n", out);
}

int chat_command(chat_session *s, const char *line)
{
  const char *names[TN_ARRAY_LEN(commands)];
  char word[32];
  size_t n = strcspn(line, " \t");
  snprintf(word, sizeof word, "%.*s", (int)n, line);
  const char *arg = line + n + strspn(line + n, " \t");
  for (size_t i = 0; i < TN_ARRAY_LEN(commands); i++) {
    if (!strcmp(word, commands[i].name)) return commands[i].run(s, arg);
    names[i] = commands[i].name;
  }
  const char *near = tn_nearest(word, names, TN_ARRAY_LEN(names));
  tn_err err = tn_err_init();
  tn_fail(&err, TN_E_ARG, "no command %s%s%s%s (/help lists them)", word, near ? "; did you mean " : "",
          near ? near : "", near ? "?" : "");
  tn_cli_fail(&s->a->cli, &err);
  return CHAT_GO;
}
