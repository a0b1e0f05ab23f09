/* chat_line: what is typed. On a terminal libedit edits the line and keeps a history; elsewhere lines are read as they
 * are. */
#include <errno.h>
#include <histedit.h>
#include <stdlib.h>
#include <string.h>

#include "cli/chat_int.h"

struct chat_line {
  EditLine *edit; /* NULL: no terminal */
  History *history;
  char *text; /* [cap] of getline, or the line without its newline */
  size_t cap;
};

static char *prompt(EditLine *e)
{
  static const char text[] = "> ";
  (void)e;
  return (char *)(uintptr_t)text; /* libedit only reads it */
}

static bool open_editor(chat_line *l)
{
  HistEvent event;
  l->history = history_init();
  l->edit = el_init("tenon", stdin, stdout, stderr);
  if (!l->history || !l->edit) return false;
  history(l->history, &event, H_SETSIZE, 1000);
  el_set(l->edit, EL_PROMPT, prompt);
  el_set(l->edit, EL_EDITOR, "emacs");
  el_set(l->edit, EL_SIGNAL, 1);
  el_set(l->edit, EL_HIST, history, l->history);
  el_source(l->edit, NULL);
  return true;
}

chat_line *chat_line_new(bool terminal)
{
  chat_line *l = calloc(1, sizeof *l);
  if (!l || !terminal || open_editor(l)) return l;
  chat_line_free(l);
  return NULL;
}

void chat_line_free(chat_line *l)
{
  if (!l) return;
  if (l->edit) el_end(l->edit);
  if (l->history) history_end(l->history);
  free(l->text);
  free(l);
}

static const char *read_edited(chat_line *l, size_t *n)
{
  HistEvent event;
  int count = 0;
  const char *p = el_gets(l->edit, &count);
  if (!p || count <= 0) return NULL;
  size_t len = strcspn(p, "\n");
  char *own = realloc(l->text, len + 1);
  if (!own) return NULL;
  memcpy(own, p, len);
  own[len] = '\0';
  l->text = own;
  *n = len;
  if (len > 0) history(l->history, &event, H_ENTER, own);
  return own;
}

const char *chat_line_read(chat_line *l, size_t *n, bool *interrupted)
{
  errno = 0;
  *n = 0;
  const char *line = NULL;
  if (l->edit) {
    line = read_edited(l, n);
  } else {
    ssize_t got = getline(&l->text, &l->cap, stdin);
    if (got >= 0) {
      *n = strcspn(l->text, "\n");
      if (*n > (size_t)got) *n = (size_t)got;
      l->text[*n] = '\0';
      line = l->text;
    }
  }
  *interrupted = !line && tn_cli_interrupted();
  if (*interrupted) clearerr(stdin);
  return line;
}
