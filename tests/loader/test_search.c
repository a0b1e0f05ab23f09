/* Where the loader looks, in which order, and what it says when there is nothing. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "loader/loader.h"
#include "loader/loader_help.h"

/* dir/a and dir/b each hold eviction/sound.so, dir/bad/eviction/sound.so is no ELF file. */
static char *tree(void)
{
  char *dir = help_tmpdir(), path[256];
  const char *const places[] = {"a/eviction", "b/eviction", "lib/tenon/eviction"};
  for (size_t i = 0; i < TN_ARRAY_LEN(places); i++) {
    snprintf(path, sizeof path, "%s/%s/sound.so", dir, places[i]);
    help_copy(help_broken("sound"), path, -1);
  }
  snprintf(path, sizeof path, "%s/bad/eviction/sound.so", dir);
  help_copy(help_broken("sound"), path, 3);
  return dir;
}

static char *join(const char *fmt, const char *dir)
{
  char *s = calloc(1, 1024);
  snprintf(s, 1024, fmt, dir, dir, dir);
  return s;
}

/* Where the loader takes eviction/sound from, the folder `dir` shown as DIR; or its message. */
static char *found(tn_loader *l, const char *dir)
{
  const tn_plugin *p;
  tn_err err = tn_err_init();
  tn_status st = tn_loader_open(l, TN_SLOT_EVICTION, "sound", NULL, &p, &err);
  char *s = help_mask(st == TN_OK ? p->path : err.msg, dir);
  return s;
}

Test(search, first_folder_of_the_path_wins)
{
  char *dir = tree(), *path = join("%s/a:%s/b", dir);
  tn_loader *l = help_loader(path, NULL);
  char *got = found(l, dir);
  cr_expect(eq(str, got, "FILE/a/eviction/sound.so"));
  tn_loader_free(l);
  free(got);
  free(path);
  help_rmdir(dir);
}

Test(search, empty_and_missing_folders_are_passed_over)
{
  char *dir = tree(), *path = join("::%s/none:%s/b:", dir);
  tn_loader *l = help_loader(path, NULL);
  char *got = found(l, dir);
  cr_expect(eq(str, got, "FILE/b/eviction/sound.so"));
  tn_loader_free(l);
  free(got);
  free(path);
  help_rmdir(dir);
}

Test(search, a_file_that_is_refused_is_not_replaced_by_a_later_one)
{
  char *dir = tree(), *path = join("%s/bad:%s/a", dir);
  tn_loader *l = help_loader(path, NULL);
  char *got = found(l, dir);
  cr_expect(eq(str, got, "FILE/bad/eviction/sound.so: not an ELF file: it has 3 bytes, an ELF header has 64"));
  tn_loader_free(l);
  free(got);
  free(path);
  help_rmdir(dir);
}

Test(search, beside_the_executable_then_the_installation)
{
  char *dir = tree(), *bin = join("%s/bin", dir), *lib = join("%s/b", dir);
  mkdir(bin, 0777);
  tn_loader_cfg cfg = {.path = "", .exe_dir = bin, .lib_dir = lib};
  tn_loader *l;
  cr_assert(tn_loader_new(&cfg, &l, NULL) == TN_OK);
  const char *from;
  cr_expect(eq(sz, tn_loader_n_dirs(l), 2));
  cr_expect(strcmp(tn_loader_dir(l, 1, &from), lib) == 0 && strcmp(from, "installation") == 0);
  char *got = found(l, dir);
  cr_expect(eq(str, got, "FILE/lib/tenon/eviction/sound.so"));
  free(got);
  tn_loader_free(l);
  cfg.exe_dir = "/nonexistent/bin";
  cr_assert(tn_loader_new(&cfg, &l, NULL) == TN_OK);
  got = found(l, dir);
  cr_expect(eq(str, got, "FILE/b/eviction/sound.so"));
  tn_loader_free(l);
  free(got);
  free(bin);
  free(lib);
  help_rmdir(dir);
}

Test(search, defaults_are_the_environment_and_this_executable)
{
  setenv("TN_PATH", "/tmp/tenon-one:/tmp/tenon-two", 1);
  tn_loader *l;
  cr_assert(tn_loader_new(NULL, &l, NULL) == TN_OK);
  const char *from;
  cr_assert(eq(sz, tn_loader_n_dirs(l), 4));
  cr_expect(eq(str, (char *)tn_loader_dir(l, 1, &from), "/tmp/tenon-two"));
  cr_expect(eq(str, (char *)from, "TN_PATH"));
  const char *beside = tn_loader_dir(l, 2, &from);
  cr_expect(strstr(beside, "/tests/lib/tenon") != NULL, "%s", beside);
  cr_expect(eq(str, (char *)from, "executable"));
  cr_expect(tn_loader_dir(l, 3, &from)[0] == '/');
  tn_loader_free(l);
  unsetenv("TN_PATH");
}

Test(search, neither_the_working_directory_nor_a_relative_entry)
{
  char *dir = tree(), log[4096];
  cr_assert(chdir(dir) == 0);
  char *sub = join("%s/a", dir);
  cr_assert(chdir(sub) == 0);
  setenv("LD_LIBRARY_PATH", sub, 1);
  tn_loader *l = help_loader(".:eviction/..:", log);
  char *got = found(l, dir);
  cr_expect(
      eq(str, got,
         "eviction plugin 'sound' not found; tried /nonexistent/lib/tenon/eviction/sound.so (no such file); "
         "not searched: . (not an absolute path), eviction/.. (not an absolute path); TN_PATH names further folders"));
  cr_expect(eq(str, log,
               "2 TN_PATH entry '.' is not an absolute path and is not searched\n"
               "2 TN_PATH entry 'eviction/..' is not an absolute path and is not searched\n"));
  tn_loader_free(l);
  free(got);
  free(sub);
  cr_assert(chdir("/") == 0);
  help_rmdir(dir);
}

Test(search, every_file_tried_is_named)
{
  tn_loader *l = help_loader("/tmp/tenon-none-1:/tmp/tenon-none-2", NULL);
  const tn_plugin *p;
  tn_err err = tn_err_init();
  cr_expect(tn_loader_open(l, TN_SLOT_DRAFT, "ngrm", NULL, &p, &err) == TN_E_ARG);
  cr_expect(eq(str, err.msg,
               "draft plugin 'ngrm' not found; tried /tmp/tenon-none-1/draft/ngrm.so (no such file), "
               "/tmp/tenon-none-2/draft/ngrm.so (no such file), /nonexistent/lib/tenon/draft/ngrm.so (no such file); "
               "TN_PATH names further folders"));
  cr_expect(eq(str, (char *)tn_loader_tried(l),
               "/tmp/tenon-none-1/draft/ngrm.so: no such file (TN_PATH)\n"
               "/tmp/tenon-none-2/draft/ngrm.so: no such file (TN_PATH)\n"
               "/nonexistent/lib/tenon/draft/ngrm.so: no such file (executable)\n"));
  tn_loader_free(l);
}

Test(search, a_path_too_long_for_one_message_says_how_many_are_missing)
{
  char path[4096] = "";
  for (int i = 0; i < 30; i++)
    snprintf(path + strlen(path), sizeof path - strlen(path), "/tmp/tenon-none-of-these-%02d:", i);
  tn_loader *l = help_loader(path, NULL);
  const tn_plugin *p;
  tn_err err = tn_err_init();
  cr_expect(tn_loader_open(l, TN_SLOT_DRAFT, "ngrm", NULL, &p, &err) == TN_E_ARG);
  size_t shown = 0, left = 0;
  for (const char *at = err.msg; (at = strstr(at, "(no such file)")) != NULL; at++) shown++;
  const char *rest = strstr(err.msg, " and ");
  cr_assert(rest != NULL && sscanf(rest, " and %zu more (tenon plugins list --dirs)", &left) == 1, "%s", err.msg);
  cr_expect(gt(sz, shown, 4));
  cr_expect(eq(sz, shown + left, 31), "30 folders and the one beside the executable: %s", err.msg);
  cr_expect(strstr(tn_loader_tried(l), "/tmp/tenon-none-of-these-29/draft/ngrm.so: no such file (TN_PATH)\n") != NULL);
  tn_loader_free(l);
}

Test(search, the_nearest_name_is_suggested)
{
  char *dir = tree(), *path = join("%s/a", dir);
  tn_loader *l = help_loader(path, NULL);
  const tn_plugin *p;
  tn_err err = tn_err_init();
  cr_expect(tn_loader_open(l, TN_SLOT_EVICTION, "soumd", NULL, &p, &err) == TN_E_ARG);
  cr_expect(strstr(err.msg, "eviction plugin 'soumd' not found; did you mean 'sound'? tried ") == err.msg, "%s",
            err.msg);
  cr_expect(tn_loader_open(l, TN_SLOT_MEMORY, "sound", NULL, &p, &err) == TN_E_ARG);
  cr_expect(strstr(err.msg, "memory plugin 'sound' not found; 'sound' is a plugin of the slot eviction; tried ") ==
                err.msg,
            "%s", err.msg);
  tn_loader_free(l);
  free(path);
  help_rmdir(dir);
}

Test(search, an_explicit_path_is_absolute_and_the_only_one)
{
  char *dir = tree(), *path = join("%s/a", dir);
  tn_loader *l = help_loader(path, NULL);
  const tn_plugin *p;
  tn_err err = tn_err_init();
  cr_expect(tn_loader_open(l, TN_SLOT_EVICTION, "sound", "lib/sound.so", &p, &err) == TN_E_ARG);
  cr_expect(eq(str, err.msg, "eviction plugin 'sound': the path 'lib/sound.so' is not absolute"));
  cr_expect(tn_loader_open(l, TN_SLOT_EVICTION, "sound", "/nonexistent/sound.so", &p, &err) == TN_E_ARG);
  cr_expect(eq(str, err.msg, "eviction plugin 'sound': /nonexistent/sound.so: No such file or directory"));
  cr_expect(tn_loader_open(l, TN_SLOT_EVICTION, "sound", "/tmp", &p, &err) == TN_E_IO);
  cr_expect(eq(str, err.msg, "eviction plugin 'sound': /tmp: not a regular file"));
  tn_loader_free(l);
  free(path);
  help_rmdir(dir);
}

Test(search, a_name_that_is_no_name)
{
  static const char *const names[] = {"",    "../sound", "Sound", "a/b",
                                      "a.b", "9a",       "a-b",   "abcdefghijklmnopqrstuvwxyzabcdef"};
  tn_loader *l = help_loader("", NULL);
  const tn_plugin *p;
  tn_err err = tn_err_init();
  for (size_t i = 0; i < TN_ARRAY_LEN(names); i++) {
    cr_expect(tn_loader_open(l, TN_SLOT_EVICTION, names[i], NULL, &p, &err) == TN_E_ARG);
    cr_expect(strstr(err.msg, "a name has lower-case letters") != NULL, "%s", err.msg);
  }
  cr_expect(tn_loader_open(l, 0, "a", NULL, &p, &err) == TN_E_ARG);
  cr_expect(eq(str, err.msg, "plugin 'a': slot 0 is none of 1 to 9"));
  tn_loader_free(l);
}
