/* scaffold: copies the texts of a new plugin with their names filled in. See plugins.h.
 *
 * The texts are real files (contrib/scaffold), which compile as they are: the words my_plugin, my_slot and my_key are
 * all that is replaced. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/plugins.h"
#include "config/config.h"
#include "config/section.h"
#include "loader/text.h"
#include "loader/words.h"

#define MAX_FILE (1u << 20)

/* A file of the scaffold and what it is called in the new folder; %s is the plugin's or the slot's name. A slot may have
 * its own: backend_check.sh goes before check.sh. */
typedef struct text_file {
  const char *from, *to;
  bool executable;
} text_file;

static const text_file files[] = {
    {"%s.c", "%s.c", false},
    {"config.ini", "%s.ini", false},
    {"plugin.map", "plugin.map", false},
    {"CMakeLists.txt", "CMakeLists.txt", false},
    {"Makefile", "Makefile", false},
    {"check.sh", "check.sh", true},
    {"README.md", "README.md", false},
};

/* The first key of [compose] that a slot's plugins fill. */
static const char *key_of(uint32_t slot)
{
  const tn_compose_key *k;
  for (size_t i = 0; (k = tn_compose_key_at(i)); i++)
    if (k->slot == slot) return k->key;
  return tn_slot_name(slot);
}

/* folder/name, where a %s of name stands for word. Free with free(). */
static char *join(const char *folder, const char *name, const char *word)
{
  const char *mark = strstr(name, "%s");
  if (!mark) return tn_asprintf("%s/%s", folder, name);
  return tn_asprintf("%s/%.*s%s%s", folder, (int)(mark - name), name, word, mark + 2);
}

/* in with the words filled in, appended to out. */
static void fill(const tn_scaffold *s, const char *in, size_t n, tn_text *out)
{
  const char *const words[][2] = {
      {"my_plugin", s->name}, {"my_slot", tn_slot_name(s->slot)}, {"my_key", key_of(s->slot)}};
  for (size_t i = 0; i < n;) {
    size_t w = 0;
    while (w < TN_ARRAY_LEN(words) && strncmp(in + i, words[w][0], strlen(words[w][0])) != 0) w++;
    if (w < TN_ARRAY_LEN(words)) {
      tn_text_add(out, words[w][1], strlen(words[w][1]));
      i += strlen(words[w][0]);
    } else {
      tn_text_add(out, in + i++, 1);
    }
  }
}

static tn_status write_file(const char *path, const tn_text *text, bool executable, tn_err *err)
{
  FILE *f = fopen(path, "wx");
  if (!f) return tn_fail(err, TN_E_IO, "%s: %s", path, strerror(errno));
  bool ok = fwrite(tn_text_str(text), 1, text->n, f) == text->n;
  ok = fclose(f) == 0 && ok;
  if (ok && executable) ok = chmod(path, 0755) == 0;
  return ok ? TN_OK : tn_fail(err, TN_E_IO, "%s: %s", path, strerror(errno));
}

/* The scaffold's text: the slot's own where there is one. Free with free(); NULL: no memory. */
static char *source(const tn_scaffold *s, const text_file *f)
{
  const char *slot = tn_slot_name(s->slot);
  char *own = tn_asprintf("%s/%s_%s", s->from, slot, f->from);
  if (!own || access(own, F_OK) == 0) return own;
  free(own);
  return join(s->from, f->from, slot);
}

static tn_status write_one(const tn_scaffold *s, const text_file *f, tn_err *err)
{
  char *from = source(s, f), *to = join(s->dir, f->to, s->name), *bytes = NULL;
  tn_text text = {0};
  size_t n = 0;
  tn_status st = from && to ? tn_file_read(from, MAX_FILE, &bytes, &n, err)
                            : tn_fail(err, TN_E_NOMEM, "no memory for the files of '%s'", s->name);
  if (st == TN_OK) fill(s, bytes, n, &text);
  if (st == TN_OK && text.failed) st = tn_fail(err, TN_E_NOMEM, "%s: no memory", to);
  if (st == TN_OK) st = write_file(to, &text, f->executable, err);
  tn_text_release(&text);
  free(bytes);
  free(from);
  free(to);
  return st;
}

/* Nothing that exists is touched: all names are free before the first file is written. */
static tn_status check_free(const tn_scaffold *s, tn_err *err)
{
  for (size_t i = 0; i < TN_ARRAY_LEN(files); i++) {
    char *to = join(s->dir, files[i].to, s->name);
    if (!to) return tn_fail(err, TN_E_NOMEM, "no memory for the files of '%s'", s->name);
    bool there = access(to, F_OK) == 0;
    if (there) tn_fail(err, TN_E_ARG, "%s: is there already", to);
    free(to);
    if (there) return TN_E_ARG;
  }
  return TN_OK;
}

tn_status tn_scaffold_write(const tn_scaffold *s, tn_err *err)
{
  if (!tn_is_name(s->name))
    return tn_fail(err, TN_E_ARG,
                   "'%s' is no plugin name: want a lower-case letter, then letters, digits and _, at most %d", s->name,
                   TN_NAME_MAX);
  tn_status st = check_free(s, err);
  if (st != TN_OK) return st;
  if (mkdir(s->dir, 0777) != 0 && errno != EEXIST) return tn_fail(err, TN_E_IO, "%s: %s", s->dir, strerror(errno));
  for (size_t i = 0; i < TN_ARRAY_LEN(files) && st == TN_OK; i++) st = write_one(s, &files[i], err);
  return st;
}
