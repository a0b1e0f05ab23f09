/* The loader refuses each broken plugin with its own sentence; what is right loads once and stays. */
#include "loader/loader.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "loader/loader_help.h"
#include "loader/note.h"

typedef struct refusal {
  const char *plugin; /* tests/plugins/broken/<plugin>.c */
  tn_status status;
  const char *text; /* the whole message, the file's path as FILE */
} refusal;

static const refusal refusals[] = {
#include "loader/refusals.def"
};

Test(loader, refuses_each_broken_plugin_with_its_own_sentence)
{
  for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
    const refusal *r = &refusals[i];
    const char *path = help_broken(r->plugin);
    tn_loader *l = help_loader("", NULL);
    tn_err err = tn_err_init();
    const tn_plugin *p = (const tn_plugin *)&err;
    tn_status st = tn_loader_open(l, TN_SLOT_EVICTION, r->plugin, path, &p, &err);
    char *text = help_mask(err.msg, path);
    cr_expect(eq(int, st, r->status), "%s: %s", r->plugin, text);
    cr_expect(eq(str, text, (char *)r->text), "%s", r->plugin);
    cr_expect(p == NULL, "%s: a plugin was returned", r->plugin);
    /* That a name is another than the one asked for does not make the module a bad one. */
    cr_expect(eq(sz, tn_loader_count(l), strcmp(r->plugin, "wrong_name") == 0));
    free(text);
    tn_loader_free(l);
  }
  cr_expect(getenv("TN_TEST_CONSTRUCTOR") == NULL, "the constructor of %s ran", getenv("TN_TEST_CONSTRUCTOR"));
}

/* Opens eviction/<name> at a path; fails the test unless the status is `want`. The message stays in *err. */
static const tn_plugin *open_at(tn_loader *l, const char *name, const char *path, tn_status want, tn_err *err)
{
  const tn_plugin *p;
  *err = tn_err_init();
  tn_status st = tn_loader_open(l, TN_SLOT_EVICTION, name, path, &p, err);
  cr_expect(eq(int, st, want), "%s: %s", path, err->msg);
  return p;
}

Test(loader, opens_a_sound_plugin_once)
{
  char log[4096], want[1024];
  tn_loader *l = help_loader("", log);
  tn_err err;
  const tn_plugin *p = open_at(l, "sound", help_broken("sound"), TN_OK, &err);
  cr_assert(p != NULL);
  cr_expect(eq(str, (char *)p->desc->name, "sound"));
  cr_expect(eq(str, (char *)p->module->vendor, "Tenon tests"));
  cr_expect(eq(u32, p->isa, TN_ISA_BASE));
  cr_expect(open_at(l, "sound", help_broken("sound"), TN_OK, &err) == p);
  cr_expect(eq(sz, tn_loader_count(l), 1));
  cr_expect(tn_loader_at(l, 0) == p);
  snprintf(want, sizeof want, "1 loaded eviction/sound 1.0.0 from %s\n", p->path);
  cr_expect(eq(str, log, want));
  tn_loader_free(l);
}

Test(loader, one_file_may_fill_two_slots)
{
  tn_loader *l = help_loader("", NULL);
  tn_err err;
  const tn_plugin *a = open_at(l, "two_slots", help_broken("two_slots"), TN_OK, &err), *b = NULL;
  cr_expect(eq(sz, tn_loader_count(l), 2));
  cr_expect(tn_loader_open(l, TN_SLOT_POSITION, "two_slots_position", help_broken("two_slots"), &b, &err) == TN_OK);
  cr_assert(a && b && a != b);
  cr_expect(a->module == b->module);
  cr_expect(eq(u32, b->desc->slot, TN_SLOT_POSITION));
  cr_expect(tn_loader_open(l, TN_SLOT_DRAFT, "two_slots", help_broken("two_slots"), &b, &err) == TN_E_UNSUPPORTED);
  cr_expect(strstr(err.msg, ": its note is for the slot ") != NULL, "%s", err.msg);
  tn_loader_free(l);
}

Test(loader, symbolic_and_hard_links_are_the_same_plugin)
{
  char *dir = help_tmpdir(), file[256], soft[256], hard[256];
  snprintf(file, sizeof file, "%s/sound.so", dir);
  snprintf(soft, sizeof soft, "%s/soft.so", dir);
  snprintf(hard, sizeof hard, "%s/hard.so", dir);
  help_copy(help_broken("sound"), file, -1);
  cr_assert(symlink(file, soft) == 0 && link(file, hard) == 0);
  tn_loader *l = help_loader("", NULL);
  tn_err err;
  const tn_plugin *p = open_at(l, "sound", file, TN_OK, &err);
  cr_expect(open_at(l, "sound", soft, TN_OK, &err) == p);
  cr_expect(open_at(l, "sound", hard, TN_OK, &err) == p);
  cr_expect(eq(sz, tn_loader_count(l), 1));
  tn_loader_free(l);
  help_rmdir(dir);
}

Test(loader, one_id_in_two_files_names_both)
{
  char *dir = help_tmpdir(), copy[256], want[1200];
  snprintf(copy, sizeof copy, "%s/sound.so", dir);
  help_copy(help_broken("sound"), copy, -1);
  tn_loader *l = help_loader("", NULL);
  tn_err err;
  open_at(l, "dup_first", help_broken("dup_first"), TN_OK, &err);
  open_at(l, "dup_second", help_broken("dup_second"), TN_E_UNSUPPORTED, &err);
  snprintf(want, sizeof want, "plugin id 'org.tenon.test.dup' is in two files: %s and %s", help_broken("dup_first"),
           help_broken("dup_second"));
  cr_expect(eq(str, err.msg, want));
  open_at(l, "sound", help_broken("sound"), TN_OK, &err);
  open_at(l, "sound", copy, TN_E_UNSUPPORTED, &err);
  snprintf(want, sizeof want,
           "plugin id 'org.tenon.test.sound' is in two files: %s and %s (the second is a copy of the first)",
           help_broken("sound"), copy);
  cr_expect(eq(str, err.msg, want));
  cr_expect(eq(sz, tn_loader_count(l), 2));
  tn_loader_free(l);
  help_rmdir(dir);
}

Test(loader, a_file_replaced_after_loading_is_seen)
{
  char *dir = help_tmpdir(), file[256], want[400];
  snprintf(file, sizeof file, "%s/sound.so", dir);
  help_copy(help_broken("sound"), file, -1);
  tn_loader *l = help_loader("", NULL);
  tn_err err;
  open_at(l, "sound", file, TN_OK, &err);
  char old[270];
  snprintf(old, sizeof old, "%s.old", file);
  cr_assert(rename(file, old) == 0);
  help_copy(help_broken("dup_first"), file, -1);
  open_at(l, "dup_first", file, TN_E_STATE, &err);
  snprintf(want, sizeof want, "%s: the file was replaced after it had been loaded; restart to use the new one", file);
  cr_expect(eq(str, err.msg, want));
  tn_loader_free(l);
  help_rmdir(dir);
}

Test(loader, note_of_another_slot_than_the_descriptor)
{
  tn_loader *l = help_loader("", NULL);
  const tn_plugin *p;
  tn_err err = tn_err_init();
  const char *path = help_broken("note_other_slot");
  cr_expect(tn_loader_open(l, TN_SLOT_MEMORY, "note_other_slot", path, &p, &err) == TN_E_UNSUPPORTED);
  char *text = help_mask(err.msg, path);
  cr_expect(eq(str, text,
               "FILE: descriptor 'org.tenon.test.note_other_slot' is for the slot eviction, its note says memory"));
  free(text);
  tn_loader_free(l);
}

/* Opens `sound` with a digest and a least version. */
static tn_status want_sound(tn_loader *l, const char *sha256, const char *min, tn_err *err)
{
  const tn_plugin_want want = {
      .slot = TN_SLOT_EVICTION, .name = "sound", .path = help_broken("sound"), .sha256 = sha256, .min = min};
  const tn_plugin *p;
  *err = tn_err_init();
  return tn_loader_open_want(l, &want, &p, err);
}

Test(loader, digest_and_least_version)
{
  tn_loader *l = help_loader("", NULL);
  tn_err err;
  char hex[65], wrong[65], cmd[600];

  snprintf(cmd, sizeof cmd, "sha256sum '%s'", help_broken("sound"));
  FILE *f = popen(cmd, "r");
  cr_assert(f && fscanf(f, "%64s", hex) == 1 && pclose(f) == 0);
  memcpy(wrong, hex, sizeof wrong);
  wrong[63] = wrong[63] == '0' ? '1' : '0';
  cr_expect(want_sound(l, wrong, NULL, &err) == TN_E_VERSION);
  char text[700];
  snprintf(text, sizeof text, "%s: its sha256 is %s, want %s", help_broken("sound"), hex, wrong);
  cr_expect(eq(str, err.msg, text));
  cr_expect(eq(sz, tn_loader_count(l), 0), "loaded in spite of its digest");
  cr_expect(want_sound(l, "12", NULL, &err) == TN_E_ARG);
  cr_expect(eq(str, err.msg, "eviction plugin 'sound': sha256 is '12', want 64 hex digits"));
  cr_expect(want_sound(l, hex, "1.0", &err) == TN_OK, "%s", err.msg);
  char again[65];
  cr_expect(tn_plugin_sha256(tn_loader_at(l, 0), again, &err) == TN_OK);
  cr_expect(eq(str, again, hex));
  cr_expect(want_sound(l, NULL, "1.0.1", &err) == TN_E_VERSION);
  snprintf(text, sizeof text, "%s: eviction plugin 'sound' has version 1.0.0, at least 1.0.1 is wanted",
           help_broken("sound"));
  cr_expect(eq(str, err.msg, text));
  cr_expect(want_sound(l, NULL, "latest", &err) == TN_E_ARG);
  cr_expect(eq(str, err.msg, "eviction plugin 'sound': min is 'latest', want a version such as 1.2"));
  tn_loader_free(l);
}

Test(loader, an_instruction_set_above_the_machine)
{
  const tn_loader_cfg cfg = {.path = "", .lib_dir = "", .isa = 1 + TN_ISA_AVX2};
  tn_loader *l;
  tn_err err = tn_err_init();
  cr_assert(tn_loader_new(&cfg, &l, &err) == TN_OK);
  const char *path = help_broken("note_isa_avx512");
  open_at(l, "note_isa_avx512", path, TN_E_VERSION, &err);
  char *text = help_mask(err.msg, path);
  cr_expect(eq(str, text, "FILE: needs the instruction set AVX-512, this processor has AVX2"));
  cr_expect(getenv("TN_TEST_CONSTRUCTOR") == NULL);
  free(text);
  tn_loader_free(l);
}

Test(loader, two_loaders_share_a_file)
{
  tn_loader *a = help_loader("", NULL), *b = help_loader("", NULL);
  tn_err err;
  const tn_plugin *p = open_at(a, "sound", help_broken("sound"), TN_OK, &err);
  const tn_plugin *q = open_at(b, "sound", help_broken("sound"), TN_OK, &err);
  cr_expect(p && q && p != q && p->desc == q->desc);
  const tn_desc *d = p->desc;
  tn_loader_free(a);
  tn_loader_free(b);
  tn_loader_free(NULL);
  cr_expect(eq(str, (char *)d->name, "sound"), "a descriptor outlives its loader");
}

Test(loader, a_fifo_does_not_hang, .timeout = 5)
{
  char *dir = help_tmpdir(), path[256], want[400];
  snprintf(path, sizeof path, "%s/sound.so", dir);
  cr_assert(mkfifo(path, 0600) == 0);
  tn_loader *l = help_loader("", NULL);
  tn_err err;
  open_at(l, "sound", path, TN_E_IO, &err);
  snprintf(want, sizeof want, "eviction plugin 'sound': %s: not a regular file", path);
  cr_expect(eq(str, err.msg, want));
  tn_loader_free(l);
  help_rmdir(dir);
}

Test(loader, modules_are_shut_down_with_their_loader)
{
  unsetenv("TN_TEST_SHUTDOWN");
  tn_loader *l = help_loader("", NULL);
  tn_err err;
  open_at(l, "shuts_down", help_broken("shuts_down"), TN_OK, &err);
  cr_expect(getenv("TN_TEST_SHUTDOWN") == NULL);
  tn_loader_free(l);
  cr_expect(getenv("TN_TEST_SHUTDOWN") != NULL);
}
