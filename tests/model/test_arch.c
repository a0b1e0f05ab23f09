/* arch: the tables hang together, and an unknown architecture gets help. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

#include "model/arch.h"

static tn_str str(const char *s) { return (tn_str){s, strlen(s)}; }

Test(arch, finds_by_whole_name)
{
  static const char *const names[] = {"llama", "qwen2", "qwen3", "gemma3"};
  for (size_t i = 0; i < TN_ARRAY_LEN(names); i++) {
    const tn_arch *a = tn_arch_find(str(names[i]));
    cr_assert(ne(ptr, (void *)a, NULL));
    cr_expect(eq(str, (char *)a->name, (char *)names[i]));
    cr_expect(tn_arch_at(i) == a);
  }
  cr_expect(tn_arch_at(TN_ARRAY_LEN(names)) == NULL);
  cr_expect(tn_arch_find(str("llam")) == NULL);
  cr_expect(tn_arch_find(str("llama2")) == NULL);
  cr_expect(tn_arch_find(str("")) == NULL);
}

Test(arch, unknown_names_the_nearest_and_all)
{
  tn_err err = tn_err_init();
  cr_expect(eq(i32, tn_arch_unknown("x.gguf", str("gemma2"), &err), TN_E_UNSUPPORTED));
  cr_expect(eq(str, err.msg,
               "x.gguf: architecture 'gemma2' is not supported (the nearest is 'gemma3'); supported are llama, qwen2, "
               "qwen3, gemma3"));
  tn_arch_unknown("x.gguf", str("mamba-and-other-state-spaces"), &err);
  cr_expect(strstr(err.msg, "nearest") == NULL, "%s", err.msg);
  cr_expect(strstr(err.msg, "supported are llama") != NULL, "%s", err.msg);
  tn_arch_unknown("x.gguf", str("a\n\xff\x1b[2J"), &err);
  cr_expect(strstr(err.msg, "'a???[2J'") != NULL, "%s", err.msg);
  cr_expect(eq(i32, tn_arch_unknown("x.gguf", str("y"), NULL), TN_E_UNSUPPORTED));
}

Test(arch, parts_are_complete_and_unique)
{
  for (uint32_t p = 0; p < TN_N_PARTS; p++) {
    const tn_part_info *a = tn_part(p);
    cr_assert(a->file && a->record && a->role, "part %u", p);
    for (uint32_t q = 0; q < p; q++) {
      cr_expect(strcmp(a->file, tn_part(q)->file) != 0, "%s twice", a->file);
      cr_expect(strcmp(a->record, tn_part(q)->record) != 0, "%s twice", a->record);
    }
  }
}

Test(arch, rows_are_complete)
{
  const tn_arch *a;
  for (size_t i = 0; (a = tn_arch_at(i)); i++) {
    cr_expect(0 != (a->required & TN_PART_BIT(TN_PART_FFN_DOWN)), "%s", a->name);
    cr_expect(0 == (a->required & a->optional), "%s", a->name);
    cr_expect(0 == (a->biases & ~a->required), "%s", a->name);
    cr_expect(a->rope_style == TN_ROPE_INTERLEAVED || a->rope_style == TN_ROPE_HALF, "%s", a->name);
    cr_expect(a->act == TN_ACT_SILU || a->act == TN_ACT_GELU_TANH, "%s", a->name);
    cr_expect(a->rope_base > 1 && a->rope_base_local > 1, "%s", a->name);
  }
}
