/* fuzz_note: any bytes as a plugin file: ELF headers, segments, sections and the ABI note. */
#include <stddef.h>
#include <stdint.h>

#include "loader/note.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  tn_elf elf;
  tn_notes notes;
  tn_err err = tn_err_init();
  if (tn_elf_open(&elf, (tn_elf_src){.mem = data, .size = size}, "input", &err) == TN_OK) {
    if (tn_notes_read(&elf, &notes, &err) == TN_OK)
      for (size_t i = 0; i < notes.n; i++) tn_note_check(&notes.at[i], "input", TN_ISA_AVX512, &err);
    uint64_t off;
    if (tn_elf_offset(&elf, elf.eh.e_entry, 16, &off) && off > size - 16) __builtin_trap();
  }
  tn_elf_close(&elf);
  return 0;
}
