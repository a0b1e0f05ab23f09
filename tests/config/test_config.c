/* Configurations: includes, overriding, --set, and where every entry stands. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/config.h"
#include "support/memfs.h"
#include "config/section.h"

static tn_err err;

/* A config of files[0] and sets; NULL with err set when it is refused. */
static tn_config *load(const memfile *files, size_t n, const char *const *sets)
{
  memfs m = {files, n};
  tn_config_fs fs = memfs_fs(&m);
  tn_config *c = tn_config_new(&fs, "share/conf");
  err = tn_err_init();
  tn_status st = tn_config_load(c, files[0].path, &err);
  for (size_t i = 0; !st && sets && sets[i]; i++) st = tn_config_set(c, sets[i], &err);
  if (!st) return c;
  cr_assert(eq(int, st, err.code));
  tn_config_free(c);
  return NULL;
}

#define LOAD(sets, ...) load((memfile[]){__VA_ARGS__}, sizeof((memfile[]){__VA_ARGS__}) / sizeof(memfile), sets)

static const char *refusal(const memfile *files, size_t n, const char *const *sets)
{
  tn_config *c = load(files, n, sets);
  tn_config_free(c);
  return c ? "accepted" : err.msg;
}

#define REFUSAL(sets, ...) \
  (char *)refusal((memfile[]){__VA_ARGS__}, sizeof((memfile[]){__VA_ARGS__}) / sizeof(memfile), sets)

/* "value @ where" of the entry in force. */
static char *get(const tn_config *c, const char *section, const char *key)
{
  static char buf[512];
  const tn_config_entry *e = tn_config_get(c, section, key);
  if (!e) return "none";
  snprintf(buf, sizeof buf, "%s @ %s", e->value, e->where);
  return buf;
}

Test(config, later_wins)
{
  const char *sets[] = {"eviction.h2o.budget = 9", "compose.attention.layers=0-:x", "quantizer.int8@kv.group=32", NULL};
  tn_config *c =
      LOAD(sets, {"conf/a.ini", "include = base.ini\n[compose]\ndraft = ngram\n[eviction.h2o]\nbudget = 3\n"},
           {"conf/base.ini", "[compose]\nbackend = cpu\ndraft = other\n[engine]\nthreads = 4\n"});
  cr_assert(c != NULL, "%s", err.msg);
  cr_assert(eq(str, get(c, "compose", "backend"), "cpu @ conf/base.ini:2"));
  cr_assert(eq(str, get(c, "compose", "draft"), "ngram @ conf/a.ini:3"));
  cr_assert(eq(str, get(c, "engine", "threads"), "4 @ conf/base.ini:5"));
  cr_assert(eq(str, get(c, "eviction.h2o", "budget"), "9 @ --set eviction.h2o.budget = 9"));
  cr_assert(eq(str, get(c, "compose", "attention.layers"), "0-:x @ --set compose.attention.layers=0-:x"));
  cr_assert(eq(str, get(c, "quantizer.int8@kv", "group"), "32 @ --set quantizer.int8@kv.group=32"));
  cr_assert(eq(str, (char *)tn_config_get(c, "compose", "draft")->dir, "conf"));
  cr_assert(zero(ptr, (void *)tn_config_get(c, "eviction.h2o", "budget")->dir));
  cr_assert(eq(u32, tn_config_get(c, "compose", "backend")->depth, 1));
  cr_assert(eq(u32, tn_config_get(c, "compose", "draft")->depth, 0));
  tn_config_free(c);
}

Test(config, empty_takes_back)
{
  const char *sets[] = {"compose.kv=-", "engine.seed=-", NULL};
  tn_config *c = LOAD(sets, {"a.ini", "include = b.ini\n[compose]\neviction =\n[engine]\nthreads =\n"},
                      {"b.ini", "[compose]\neviction = h2o\nkv = int8\n[engine]\nthreads = 4\n"});
  cr_assert(c != NULL, "%s", err.msg);
  cr_assert(eq(str, get(c, "compose", "eviction"), "none"));
  cr_assert(eq(str, get(c, "compose", "kv"), "none"));
  cr_assert(eq(str, get(c, "engine", "threads"), "none"));
  cr_assert(eq(str, get(c, "engine", "seed"), "- @ --set engine.seed=-"), "only [compose] reads - as nothing");
  tn_config_free(c);
}

Test(config, includes)
{
  tn_config *c = LOAD(NULL, {"a.ini", "include = x/b.ini\ninclude = x/c.ini\n"},
                      {"x/b.ini", "include = d.ini\n[engine]\nthreads = 2\n"},
                      {"x/c.ini", "include = ./d.ini\ninclude = far.ini\n"}, {"x/d.ini", "[engine]\nthreads = 1\n"},
                      {"share/conf/far.ini", "[engine]\nseed = 7\n"});
  cr_assert(c != NULL, "%s", err.msg);
  cr_assert(eq(str, get(c, "engine", "threads"), "2 @ x/b.ini:3"), "d.ini is read once, where it comes first");
  cr_assert(eq(str, get(c, "engine", "seed"), "7 @ share/conf/far.ini:2"));
  cr_assert(eq(str, (char *)tn_config_file(c, 0), "a.ini"));
  cr_assert(eq(str, (char *)tn_config_file(c, 2), "x/d.ini"));
  cr_assert(zero(ptr, (void *)tn_config_file(c, 5)));
  tn_config_free(c);
}

Test(config, include_faults)
{
  cr_assert(eq(
      str,
      REFUSAL(NULL, {"a.ini", "include = b.ini\n"}, {"b.ini", "\ninclude = c.ini\n"}, {"c.ini", "include = a.ini\n"}),
      "a.ini:1: b.ini:2: c.ini:1: files include each other in a circle: a.ini -> b.ini -> c.ini -> a.ini"));
  cr_assert(eq(str, REFUSAL(NULL, {"a.ini", "include = a.ini\n"}),
               "a.ini:1: files include each other in a circle: a.ini -> a.ini"));
  cr_assert(eq(str, REFUSAL(NULL, {"x/a.ini", "include = b.ini\n"}),
               "x/a.ini:1: x/b.ini: cannot be opened: No such file or directory; nor is it in share/conf"));
  cr_assert(eq(str, REFUSAL(NULL, {"x/a.ini", "include = /b.ini\n"}),
               "x/a.ini:1: /b.ini: cannot be opened: No such file or directory"));
  cr_assert(eq(str, REFUSAL(NULL, {"a.ini", "include =\n"}), "a.ini:1: include: a file's name is missing"));
  cr_assert(eq(str, REFUSAL(NULL, {"a.ini", "[engine]\ninclude = b.ini\n"}), "accepted"),
            "an option of that name is looked at later, with the table of [engine]");
  memfile deep[20];
  char texts[20][40], names[20][24];
  for (int i = 0; i < 20; i++) {
    snprintf(names[i], sizeof names[i], "f%d.ini", i);
    snprintf(texts[i], sizeof texts[i], "include = f%d.ini\n", i + 1);
    deep[i] = (memfile){names[i], texts[i]};
  }
  const char *msg = refusal(deep, 20, NULL), *tail = "f16.ini:1: include = f17.ini: includes go deeper than 16 files";
  cr_assert(eq(str, (char *)msg + strlen(msg) - strlen(tail), (char *)tail));
}

Test(config, faults_name_file_and_line)
{
  cr_assert(eq(str, REFUSAL(NULL, {"a.ini", "backend = cpu\n"}),
               "a.ini:1: 'backend' stands before the first [section], where only include is allowed"));
  cr_assert(eq(str, REFUSAL(NULL, {"a.ini", "[compose]\nbackend = a\n[engine]\n[compose]\nbackend = b\n"}),
               "a.ini:5: [compose] backend was set before, at a.ini:2"));
  cr_assert(eq(str, REFUSAL(NULL, {"a.ini", "[compose]\nevicton = a\n"}),
               "a.ini:2: [compose] has no key 'evicton'; did you mean 'eviction'?"));
  cr_assert(eq(str, REFUSAL(NULL, {"a.ini", "[compose]\nzzzzzz = a\n"}),
               "a.ini:2: [compose] has no key 'zzzzzz'; its keys are backend, memory, attention, attention.layers, "
               "scheduler, position, eviction, weights, kv, demote, draft, parallel"));
  cr_assert(eq(str, REFUSAL(NULL, {"a.ini", "[enigne]\na = 1\n"}),
               "a.ini:2: there is no section [enigne]; did you mean [engine]?"));
  cr_assert(eq(str, REFUSAL(NULL, {"a.ini", "[evicton.h2o]\na = 1\n"}),
               "a.ini:2: there is no section [evicton.h2o]; did you mean [eviction.h2o]?"));
  cr_assert(eq(str, REFUSAL(NULL, {"a.ini", "[eviction]\na = 1\n"}),
               "a.ini:2: [eviction] names a slot, options belong to a plugin of it: [eviction.name]"));
  cr_assert(eq(str, REFUSAL(NULL, {"a.ini", "[eviction.H2O]\na = 1\n"}),
               "a.ini:2: [eviction.H2O]: 'H2O' is no plugin name: a lower-case letter, then letters, digits and _"));
  cr_assert(eq(str, REFUSAL(NULL, {"a.ini", "[eviction.h2o@kv]\na = 1\n"}),
               "a.ini:2: [eviction.h2o@kv]: 'kv' is no key of [compose] that a plugin of slot eviction can fill"));
  cr_assert(eq(str, REFUSAL(NULL, {"a.ini", "[qqqqqqqq]\na = 1\n"}),
               "a.ini:2: there is no section [qqqqqqqq]: it is [compose], [engine], [model] or [slot.name]"));
}

Test(config, set_faults)
{
#define FORM "want section.key=value, as in engine.threads=2 or quantizer.int8@kv.group=64"
  cr_assert(eq(str, REFUSAL(((const char *[]){"engine.threads", NULL}), {"a.ini", ""}), "--set engine.threads: " FORM));
  cr_assert(eq(str, REFUSAL(((const char *[]){"threads=2", NULL}), {"a.ini", ""}), "--set threads=2: " FORM));
  cr_assert(eq(str, REFUSAL(((const char *[]){"eviction.h2o=2", NULL}), {"a.ini", ""}), "--set eviction.h2o=2: " FORM));
  cr_assert(eq(str, REFUSAL(((const char *[]){"compose.drat=ngram", NULL}), {"a.ini", ""}),
               "--set compose.drat=ngram: [compose] has no key 'drat'; did you mean 'draft'?"));
  cr_assert(eq(str, REFUSAL(((const char *[]){"engin.threads=2", NULL}), {"a.ini", ""}),
               "--set engin.threads=2: there is no section [engin]; did you mean [engine]?"));
  cr_assert(
      eq(str, REFUSAL(((const char *[]){"engine.x=\xff", NULL}), {"a.ini", ""}), "--set: the argument is not UTF-8"));
}

Test(config, set_by_another_option)
{
  tn_config *c = tn_config_new(NULL, NULL);
  err = tn_err_init();
  cr_assert(zero(int, tn_config_set_from(c, "engine.ctx=4096", "-c 4096", &err)), "%s", err.msg);
  cr_assert(eq(str, get(c, "engine", "ctx"), "4096 @ -c 4096"));
  cr_assert(eq(int, tn_config_set_from(c, "engin.ctx=4096", "-c 4096", &err), TN_E_ARG));
  cr_assert(eq(str, err.msg, "-c 4096: there is no section [engin]; did you mean [engine]?"));
  tn_config_free(c);
}

Test(config, text_beside_files)
{
  tn_config *c = tn_config_new(NULL, NULL);
  const char *text = "[engine]\nthreads = 3\n";
  cr_assert(zero(int, tn_config_load_text(c, "demo", text, strlen(text), &err)));
  cr_assert(eq(str, get(c, "engine", "threads"), "3 @ demo:2"));
  tn_config_free(c);
}

/* The real file system: a file reached through a link is the same file. */
Test(config, files_on_disk)
{
  char dir[] = "/tmp/tn_config_XXXXXX", path[64], link[64], other[64];
  cr_assert(mkdtemp(dir) != NULL);
  snprintf(path, sizeof path, "%s/a.ini", dir);
  snprintf(link, sizeof link, "%s/b.ini", dir);
  snprintf(other, sizeof other, "%s/c.ini", dir);
  FILE *f = fopen(path, "w");
  fputs("include = b.ini\n", f);
  fclose(f);
  cr_assert(zero(int, symlink("a.ini", link)));
  tn_config *c = tn_config_new(NULL, NULL);
  err = tn_err_init();
  cr_assert(eq(int, tn_config_load(c, path, &err), TN_E_ARG));
  cr_assert(strstr(err.msg, "in a circle") != NULL, "%s", err.msg);
  tn_config_free(c);
  c = tn_config_new(NULL, NULL);
  cr_assert(eq(int, tn_config_load(c, other, &err), TN_E_IO));
  cr_assert(strstr(err.msg, "c.ini: cannot be opened: No such file or directory") != NULL, "%s", err.msg);
  tn_config_free(c);
  c = tn_config_new(NULL, NULL);
  cr_assert(eq(int, tn_config_load(c, dir, &err), TN_E_ARG));
  cr_assert(strstr(err.msg, "is no regular file") != NULL, "%s", err.msg);
  tn_config_free(c);
  unlink(path);
  unlink(link);
  rmdir(dir);
}
