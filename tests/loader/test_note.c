/* Damaged files: whatever is wrong with the bytes, a sentence comes back and none of the file's code runs. */
#include "loader/note.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loader/loader_help.h"
#include "loader/loader_int.h"

/* The bytes of a sound plugin. Free with free(). */
static uint8_t *sound(size_t *n)
{
  FILE *f = fopen(help_broken("sound"), "rb");
  cr_assert(f && fseek(f, 0, SEEK_END) == 0);
  *n = (size_t)ftell(f);
  uint8_t *p = malloc(*n);
  rewind(f);
  cr_assert(p && fread(p, 1, *n, f) == *n);
  fclose(f);
  return p;
}

/* Headers and notes of bytes in memory; the copy is exactly n long, so that a read past the end is seen. */
static tn_status read_notes(const uint8_t *bytes, size_t n, tn_notes *notes, tn_err *err)
{
  uint8_t *exact = malloc(n ? n : 1);
  memcpy(exact, bytes, n);
  tn_elf elf;
  *err = tn_err_init();
  tn_status st = tn_elf_open(&elf, (tn_elf_src){.mem = exact, .size = n}, "FILE", err);
  if (st == TN_OK) st = tn_notes_read(&elf, notes, err);
  if (st == TN_OK)
    for (size_t i = 0; i < notes->n && st == TN_OK; i++) st = tn_note_check(&notes->at[i], "FILE", TN_ISA_BASE, err);
  tn_elf_close(&elf);
  free(exact);
  return st;
}

Test(note, of_a_sound_file)
{
  size_t n;
  uint8_t *p = sound(&n);
  tn_notes notes;
  tn_err err;
  cr_assert(read_notes(p, n, &notes, &err) == TN_OK, "%s", err.msg);
  cr_assert(eq(sz, notes.n, 1));
  cr_expect(eq(str, notes.at[0].id, "org.tenon.test.sound"));
  cr_expect(eq(u32, notes.at[0].slot, TN_SLOT_EVICTION));
  free(p);
}

/* One change of the header and the sentence that answers it. */
typedef struct damage {
  size_t offset, bytes; /* of a field of the header */
  uint64_t value;
  const char *text;
} damage;

#define EH(f) offsetof(Elf64_Ehdr, f), sizeof(((Elf64_Ehdr *)0)->f)

Test(note, damaged_headers)
{
  static const damage rows[] = {
      {0, 1, 0x7e, "FILE: not an ELF file: it begins with 7e 45 4c 46"},
      {EI_CLASS, 1, ELFCLASS32, "FILE: ELF class is 1, want 2 (64 bit)"},
      {EI_DATA, 1, ELFDATA2MSB, "FILE: ELF byte order is 2, want 1 (little endian)"},
      {EI_VERSION, 1, 3, "FILE: ELF version is 3, want 1"},
      {EH(e_machine), EM_S390, "FILE: built for ELF machine 22, this host is "},
      {EH(e_type), ET_EXEC, "FILE: ELF type is 2, want 3 (shared object)"},
      {EH(e_phnum), 0, "FILE: has 0 segments, want 1 to 1024"},
      {EH(e_phnum), 0xffff, "FILE: has 65535 segments, want 1 to 1024"},
      {EH(e_phentsize), 32, "FILE: segment headers have 32 bytes, want 56"},
      {EH(e_phoff), UINT64_MAX - 8, "FILE: truncated: the segment table needs "},
      {EH(e_shentsize), 40, "FILE: section headers have 40 bytes, want 64"},
      {EH(e_shoff), UINT64_MAX - 8, "FILE: truncated: the section table needs "},
  };
  size_t n;
  uint8_t *p = sound(&n), *q = malloc(n);
  for (size_t i = 0; i < TN_ARRAY_LEN(rows); i++) {
    tn_notes notes;
    tn_err err;
    memcpy(q, p, n);
    memcpy(q + rows[i].offset, &rows[i].value, rows[i].bytes);
    cr_expect(read_notes(q, n, &notes, &err) == TN_E_UNSUPPORTED, "row %zu", i);
    cr_expect(strncmp(err.msg, rows[i].text, strlen(rows[i].text)) == 0, "row %zu: %s", i, err.msg);
  }
  free(p);
  free(q);
}

/* The segment of that type, number `skip` of its kind, in the bytes of a file. */
static Elf64_Phdr *segment(uint8_t *p, uint32_t type)
{
  Elf64_Ehdr *eh = (Elf64_Ehdr *)p;
  Elf64_Phdr *ph = (Elf64_Phdr *)(p + eh->e_phoff);
  for (size_t i = 0; i < eh->e_phnum; i++)
    if (ph[i].p_type == type && (type != PT_NOTE || ph[i].p_filesz >= sizeof(tn_note))) return &ph[i];
  cr_assert(false, "no segment of type %u", type);
  return NULL;
}

static void strip_sections(uint8_t *p)
{
  Elf64_Ehdr *eh = (Elf64_Ehdr *)p;
  eh->e_shoff = 0;
  eh->e_shnum = 0;
  eh->e_shstrndx = 0;
}

/* The note in the bytes of a file. */
static tn_note *note_of(uint8_t *p)
{
  Elf64_Phdr *ph = segment(p, PT_NOTE);
  for (uint8_t *at = p + ph->p_offset; at + sizeof(tn_note) <= p + ph->p_offset + ph->p_filesz; at += 4)
    if (memcmp(at + offsetof(tn_note, name), "TEN", 4) == 0) return (tn_note *)at;
  cr_assert(false, "no note");
  return NULL;
}

static char *answer(const uint8_t *p, size_t n)
{
  tn_notes notes;
  tn_err err;
  tn_status st = read_notes(p, n, &notes, &err);
  return st == TN_OK ? tn_strdup("ok") : tn_strdup(err.msg);
}

Test(note, a_file_without_a_section_table_is_read_from_its_segments)
{
  size_t n;
  uint8_t *p = sound(&n);
  strip_sections(p);
  char *got = answer(p, n);
  cr_expect(eq(str, got, "ok"));
  free(got);
  free(p);
}

Test(note, damaged_segments_and_notes)
{
  size_t n;
  for (int row = 0; row < 8; row++) {
    uint8_t *p = sound(&n);
    Elf64_Phdr *load = segment(p, PT_LOAD), *seg = segment(p, PT_NOTE);
    tn_note *note = note_of(p);
    const char *want = "";
    switch (row) {
      case 0: load->p_filesz = n + 1, load->p_memsz = n + 1, want = "FILE: truncated: segment 0 needs "; break;
      case 1: load->p_memsz = load->p_filesz - 1, want = "FILE: segment 0 has "; break;
      case 2: seg->p_offset = n - 4, want = "FILE: truncated: a note segment needs "; break;
      case 3:
        seg->p_filesz = 2u << 20, want = "FILE: a note segment has 2097152 bytes, at most 1048576 are read";
        break;
      case 4: note->descsz = 84, want = "FILE: its Tenon note has 84 bytes, want 88"; break;
      case 5: note->namesz = 0xfffffff0u, want = "FILE: the note at offset "; break;
      case 6:
        note->name[0] = 'X', want = "FILE: section .note.tenon has 104 bytes, the note segments hold 0 notes";
        break;
      default: strip_sections(p), note->type = 9, want = "FILE: has no Tenon note: not a plugin"; break;
    }
    char *got = answer(p, n);
    cr_expect(strncmp(got, want, strlen(want)) == 0, "row %d: %s", row, got);
    free(got);
    free(p);
  }
}

Test(note, section_and_segment_must_agree)
{
  size_t n;
  uint8_t *p = sound(&n);
  uint8_t *q = malloc(2 * n); /* the section of the copy points to a second note behind the file */
  memcpy(q, p, n);
  tn_elf elf;
  cr_assert(tn_elf_open(&elf, (tn_elf_src){.mem = p, .size = n}, "FILE", NULL) == TN_OK);
  const Elf64_Shdr *s = tn_elf_section(&elf, ".note.tenon");
  cr_assert(s != NULL);
  Elf64_Shdr *mine = (Elf64_Shdr *)(q + ((Elf64_Ehdr *)q)->e_shoff) + (s - elf.sh);
  memcpy(q + n, note_of(p), sizeof(tn_note));
  mine->sh_offset = n;
  char *got = answer(q, n + sizeof(tn_note));
  cr_expect(eq(str, got, "ok"));
  free(got);
  q[n + offsetof(tn_note, slot)] = TN_SLOT_MEMORY;
  got = answer(q, n + sizeof(tn_note));
  cr_expect(eq(str, got, "FILE: note 0 differs between section .note.tenon and its segment"));
  free(got);
  mine->sh_type = SHT_PROGBITS;
  got = answer(q, n + sizeof(tn_note));
  cr_expect(eq(str, got, "FILE: section .note.tenon has type 1, want 7 (SHT_NOTE)"));
  free(got);
  tn_elf_close(&elf);
  free(p);
  free(q);
}

/* A truncated file would end in SIGBUS inside dlopen. */
Test(note, a_file_cut_anywhere_is_refused)
{
  size_t n;
  uint8_t *p = sound(&n);
  for (int sections = 1; sections >= 0; sections--) {
    if (!sections) strip_sections(p);
    uint64_t end = n;
    Elf64_Phdr *ph = (Elf64_Phdr *)(p + ((Elf64_Ehdr *)p)->e_phoff);
    if (!sections) end = 0;
    for (size_t i = 0; !sections && i < ((Elf64_Ehdr *)p)->e_phnum; i++)
      if (ph[i].p_type == PT_LOAD && ph[i].p_offset + ph[i].p_filesz > end) end = ph[i].p_offset + ph[i].p_filesz;
    for (size_t cut = 0; cut < end; cut += cut < 4096 ? 1 : 61) {
      tn_notes notes;
      tn_err err;
      cr_assert(read_notes(p, cut, &notes, &err) == TN_E_UNSUPPORTED, "cut after %zu of %zu bytes", cut, n);
      cr_assert(err.msg[0] != '\0');
    }
  }
  free(p);
}

Test(note, a_truncated_file_is_refused_by_the_loader)
{
  char *dir = help_tmpdir(), path[256];
  snprintf(path, sizeof path, "%s/sound.so", dir);
  help_copy(help_broken("sound"), path, 8192);
  tn_loader *l = help_loader("", NULL);
  const tn_plugin *plugin;
  tn_err err = tn_err_init();
  cr_expect(tn_loader_open(l, TN_SLOT_EVICTION, "sound", path, &plugin, &err) == TN_E_UNSUPPORTED);
  char *text = help_mask(err.msg, path);
  cr_expect(strncmp(text, "FILE: truncated: ", 17) == 0, "%s", text);
  free(text);
  tn_loader_free(l);
  help_rmdir(dir);
}

Test(note, the_instruction_set_of_this_machine_is_known)
{
  cr_expect(tn_isa_of_host() <= TN_ISA_AVX512);
  cr_expect(eq(str, (char *)tn_isa_name(TN_ISA_AVX2), "AVX2"));
  cr_expect(eq(str, (char *)tn_isa_name(99), "unknown"));
  FILE *f = fopen("/proc/cpuinfo", "r");
  char line[8192];
  bool avx2 = false, avx512 = false, flags = false;
  while (f && fgets(line, sizeof line, f)) {
    if (strncmp(line, "flags", 5) != 0) continue;
    flags = true;
    avx2 = strstr(line, " avx2 ") && strstr(line, " fma ") && strstr(line, " f16c ");
    avx512 = avx2 && strstr(line, " avx512f ") && strstr(line, " avx512bw ") && strstr(line, " avx512vl ") &&
             strstr(line, " avx512dq ");
    break;
  }
  if (f) fclose(f);
  if (!flags) cr_skip_test("/proc/cpuinfo lists no flags");
  cr_expect(eq(u32, tn_isa_of_host(), avx512 ? TN_ISA_AVX512 : avx2 ? TN_ISA_AVX2 : TN_ISA_BASE));
}
