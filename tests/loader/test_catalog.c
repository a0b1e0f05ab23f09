/* The list of plugin files on the search path, from their notes alone. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "loader/loader.h"
#include "loader/loader_help.h"

/* Copies a test plugin to dir/<to>. */
static void put(const char *dir, const char *plugin, const char *to, long bytes)
{
  char path[512];
  snprintf(path, sizeof path, "%s/%s", dir, to);
  help_copy(help_broken(plugin), path, bytes);
}

Test(catalog, lists_by_slot_search_order_and_name_and_runs_no_code)
{
  char *dir = help_tmpdir(), path[256], rest[256];
  put(dir, "two_slots", "a/position/two_slots_position.so", -1);
  put(dir, "sound", "a/eviction/sound.so", -1);
  put(dir, "dup_first", "a/eviction/dup_first.so", -1);
  put(dir, "sound", "b/eviction/sound.so", -1);
  put(dir, "note_isa_avx512", "b/eviction/note_isa_avx512.so", -1);
  put(dir, "sound", "b/eviction/cut.so", 1000);
  put(dir, "sound", "b/memory/sound.so", -1);
  put(dir, "sound", "b/memory/Bad-Name.so", -1);
  put(dir, "sound", "b/memory/readme.txt", -1);
  put(dir, "sound", "b/unknown/sound.so", -1);
  snprintf(path, sizeof path, "%s/a:%s/none:%s/b", dir, dir, dir);
  tn_loader *l = help_loader(path, NULL);
  tn_found_list list;
  cr_assert(tn_loader_scan(l, &list, NULL) == TN_OK);
  static const struct {
    const char *slot, *name, *id, *problem;
    uint32_t shadowed;
  } want[] = {
      {"memory", "Bad-Name", "", "FILE: 'Bad-Name' is no plugin name (lower-case letters, digits, _)", 0},
      {"memory", "sound", "", "FILE: its note is for the slot eviction, its folder is memory", 0},
      {"eviction", "dup_first", "org.tenon.test.dup", NULL, 0},
      {"eviction", "sound", "org.tenon.test.sound", NULL, 0},
      {"eviction", "cut", "", "FILE: truncated: ", 0},
      {"eviction", "note_isa_avx512", "", "FILE: needs the instruction set AVX-512, this processor has baseline", 0},
      {"eviction", "sound", "org.tenon.test.sound", NULL, 1},
      {"position", "two_slots_position", "org.tenon.test.two_slots.position", NULL, 0},
  };
  cr_assert(eq(sz, list.n, TN_ARRAY_LEN(want)));
  for (size_t i = 0; i < list.n; i++) {
    const tn_found *f = &list.at[i];
    cr_expect(eq(str, (char *)tn_slot_name(f->slot), (char *)want[i].slot));
    cr_expect(eq(str, (char *)f->name, (char *)want[i].name));
    cr_expect(eq(str, (char *)f->id, (char *)want[i].id));
    cr_expect(eq(u32, f->shadowed, want[i].shadowed), "%s", f->path);
    char *problem = f->problem ? help_mask(f->problem, f->path) : NULL;
    bool same = !problem == !want[i].problem;
    cr_expect(same, "%s: %s", f->path, problem ? problem : "no problem");
    if (problem && want[i].problem)
      cr_expect(strncmp(problem, want[i].problem, strlen(want[i].problem)) == 0, "%s", problem);
    free(problem);
  }
  cr_expect(getenv("TN_TEST_CONSTRUCTOR") == NULL);
  snprintf(rest, sizeof rest, "%s/b/eviction/sound.so", dir);
  cr_expect(eq(str, (char *)list.at[6].path, rest));
  tn_found_list_free(&list);
  cr_expect(list.n == 0 && list.at == NULL);
  tn_loader_free(l);
  help_rmdir(dir);
}

Test(catalog, a_search_path_without_plugins)
{
  tn_loader *l = help_loader("/nonexistent:/tmp/tenon-none", NULL);
  tn_found_list list;
  cr_assert(tn_loader_scan(l, &list, NULL) == TN_OK);
  cr_expect(eq(sz, list.n, 0));
  tn_found_list_free(&list);
  tn_loader_free(l);
}
