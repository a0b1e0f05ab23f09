/* note: the ABI note of a plugin (.note.tenon), read from the file's bytes. No code of the plugin runs. */
#ifndef TN_CORE_LOADER_NOTE_H
#define TN_CORE_LOADER_NOTE_H

#include "loader/elf.h"

#define TN_NOTE_MAX 16 /* notes, that is descriptors, of one file */

typedef struct tn_notes {
  tn_note at[TN_NOTE_MAX];
  size_t n;
} tn_notes;

/* Finds the notes of the owner "TEN" in the PT_NOTE segments, one per descriptor, in the file's order. Where the file
 * still has a section .note.tenon, it must hold the same notes. The fields are not judged: see tn_note_check.
 * Errors: TN_E_UNSUPPORTED (no note, malformed, more than TN_NOTE_MAX, section and segment differ). */
tn_status tn_notes_read(const tn_elf *elf, tn_notes *out, tn_err *err);

/* One note against this host: ABI major and minor equal, oldest host not newer than this one, known instruction set, at
 * most isa (TN_ISA_*), a slot, reserved word 0, id well formed and padded with NULs.
 * Errors: TN_E_VERSION (ABI, instruction set), TN_E_UNSUPPORTED, each with the file and both values. */
tn_status tn_note_check(const tn_note *note, const char *file, uint32_t isa, tn_err *err);

/* The highest TN_ISA_* that this processor can run. */
uint32_t tn_isa_of_host(void);

/* "AVX2" and the like. Static. */
const char *tn_isa_name(uint32_t isa);

#endif
