/* The slots' names and hook tables. */
#include "loader/slot.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

Test(slot, names_and_numbers_agree)
{
  static const char *const names[] = {"backend",   "memory",   "eviction",  "quantizer", "draft",
                                      "attention", "position", "scheduler", "parallel"};
  for (uint32_t s = TN_SLOT_FIRST; s <= TN_SLOT_LAST; s++) {
    cr_expect(eq(str, (char *)tn_slot_name(s), (char *)names[s - 1]));
    cr_expect(eq(u32, tn_slot_by_name(names[s - 1]), s));
  }
  cr_expect(eq(str, (char *)tn_slot_name(0), "unknown"));
  cr_expect(eq(str, (char *)tn_slot_name(10), "unknown"));
  cr_expect(eq(u32, tn_slot_by_name("unknown"), 0));
  cr_expect(eq(u32, tn_slot_by_name(""), 0));
}

Test(slot, every_word_of_a_vtable_behind_its_head_is_in_the_table)
{
  for (uint32_t s = TN_SLOT_FIRST; s <= TN_SLOT_LAST; s++) {
    size_t n;
    uint32_t size;
    const tn_hook *hooks = tn_slot_hooks(s, &n, &size);
    cr_assert(hooks != NULL && n > 0);
    for (size_t i = 0; i < n; i++)
      cr_expect(eq(sz, hooks[i].offset, 8 + 8 * i), "%s.%s", tn_slot_name(s), hooks[i].name);
    cr_expect(eq(sz, size, 8 + 8 * n), "tn_%s_v1 has more fields than the table", tn_slot_name(s));
    cr_expect(hooks[0].required, "the first function of %s", tn_slot_name(s));
  }
}

Test(slot, optional_functions_are_those_of_the_contract)
{
  static const struct {
    uint32_t slot;
    const char *hook;
    bool required;
  } rows[] = {
      {TN_SLOT_EVICTION, "score", false},      {TN_SLOT_QUANTIZER, "encode", true},
      {TN_SLOT_QUANTIZER, "kv_layout", false}, {TN_SLOT_DRAFT, "outcome", false},
      {TN_SLOT_ATTENTION, "tiles", false},     {TN_SLOT_POSITION, "regime", false},
      {TN_SLOT_SCHEDULER, "victim", true},     {TN_SLOT_MEMORY, "free_pages", true},
      {TN_SLOT_BACKEND, "kv_move", true},
  };
  for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
    size_t n;
    uint32_t size;
    const tn_hook *hooks = tn_slot_hooks(rows[r].slot, &n, &size), *hit = NULL;
    for (size_t i = 0; i < n; i++)
      if (strcmp(hooks[i].name, rows[r].hook) == 0) hit = &hooks[i];
    cr_assert(hit != NULL, "%s", rows[r].hook);
    cr_expect(eq(int, hit->required, rows[r].required), "%s", rows[r].hook);
  }
}

Test(slot, no_hooks_of_no_slot)
{
  size_t n = 7;
  uint32_t size = 7;
  cr_expect(tn_slot_hooks(0, &n, &size) == NULL && n == 0 && size == 0);
  cr_expect(tn_slot_hooks(TN_SLOT_LAST + 1, &n, &size) == NULL && n == 0 && size == 0);
}
