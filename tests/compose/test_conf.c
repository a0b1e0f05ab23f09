/* The configurations that come with Tenon: every one composes with the plugins of the build. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compose/compose.h"

#define CONF TN_SOURCE_DIR "/conf"

static tn_loader *loader;
static tn_err err;

static void open_loader(void)
{
  tn_loader_cfg cfg = {.path = TN_BUILD_DIR "/lib/tenon", .exe_dir = TN_BUILD_DIR "/bin", .lib_dir = ""};
  err = tn_err_init();
  cr_assert(zero(int, tn_loader_new(&cfg, &loader, &err)), "%s", err.msg);
}
static void close_loader(void) { tn_loader_free(loader); }
TestSuite(conf, .init = open_loader, .fini = close_loader);

/* Is every plugin built that default.ini names? */
static bool built(void)
{
  const char *files[] = {"backend/cpu", "memory/paged", "attention/full", "scheduler/continuous", "position/rope"};
  char path[512];
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    snprintf(path, sizeof path, TN_BUILD_DIR "/lib/tenon/%s.so", files[i]);
    if (access(path, R_OK) != 0) return false;
  }
  return true;
}

/* Composes default.ini and then file (NULL: nothing more). The message, or NULL when it works; *warnings as found. */
static const char *compose(const char *file, size_t *warnings, char *print)
{
  tn_config *c = tn_config_new(NULL, CONF);
  tn_catalog catalog = tn_catalog_of(loader);
  tn_composition *out = NULL;
  err = tn_err_init();
  tn_status st = tn_config_load(c, CONF "/default.ini", &err);
  if (!st && file) st = tn_config_load(c, file, &err);
  if (!st) st = tn_compose(c, &catalog, NULL, &out, &err);
  for (*warnings = 0; !st && tn_composition_warning(out, *warnings);) {
    cr_log_info("%s", tn_composition_warning(out, *warnings));
    ++*warnings;
  }
  /* The one warning that such a file asks for. */
  if (!st && tn_composition_host(out)->opts.allow_untrained) --*warnings;
  if (!st && print) tn_composition_short(out, print);
  tn_composition_free(out);
  tn_config_free(c);
  return st ? err.msg : NULL;
}

/* Every .ini of a folder below conf/; at least `least` of them. */
static void compose_all(const char *folder, size_t least)
{
  if (!built()) cr_skip_test("the plugins of default.ini are not built in " TN_BUILD_DIR);
  char path[512], base[TN_FINGERPRINT_HEX + 1] = "", print[TN_FINGERPRINT_HEX + 1];
  size_t warnings, n = 0;
  const char *msg = compose(NULL, &warnings, base);
  cr_assert(msg == NULL, "default.ini: %s", msg);
  snprintf(path, sizeof path, CONF "/%s", folder);
  DIR *d = opendir(path);
  cr_assert(d != NULL);
  struct dirent *e;
  while ((e = readdir(d))) {
    if (!strstr(e->d_name, ".ini")) continue;
    snprintf(path, sizeof path, CONF "/%s/%s", folder, e->d_name);
    msg = compose(path, &warnings, print);
    cr_expect(msg == NULL, "%s: %s", path, msg);
    cr_expect(eq(sz, warnings, 0), "%s", path);
    n++;
  }
  closedir(d);
  cr_assert(ge(sz, n, least));
}

Test(conf, techniques) { compose_all("techniques", 23); }

Test(conf, recipes) { compose_all("recipes", 3); }

/* The file of a technique is named like the technique, and puts it into a key. */
Test(conf, techniques_are_named_for_plugins)
{
  DIR *d = opendir(CONF "/techniques");
  cr_assert(d != NULL);
  struct dirent *e;
  while ((e = readdir(d))) {
    char *dot = strstr(e->d_name, ".ini"), path[512], name[256];
    if (!dot) continue;
    snprintf(path, sizeof path, CONF "/techniques/%s", e->d_name);
    snprintf(name, sizeof name, "%.*s", (int)(dot - e->d_name), e->d_name);
    tn_config *c = tn_config_new(NULL, CONF);
    cr_assert(zero(int, tn_config_load(c, path, &err)), "%s", err.msg);
    bool named = false;
    const tn_config_entry *x;
    for (size_t i = 0; (x = tn_config_at(c, i)); i++)
      if (!strcmp(x->section, "compose") && !strcmp(x->value, name)) named = true;
    cr_expect(named, "%s does not put '%s' into a key of [compose]", path, name);
    tn_config_free(c);
  }
  closedir(d);
}
