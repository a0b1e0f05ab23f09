/* note: see note.h. An ELF note is {namesz, descsz, type}, the name, the description, each padded to 4 bytes, or to 8
 * in a segment aligned to 8. */
#include "loader/note.h"

#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "loader/words.h"

#define OWNER "TEN"
#define MAX_SEGMENT (1u << 20) /* bytes of one PT_NOTE segment */

_Static_assert(sizeof(tn_note) == 104 && offsetof(tn_note, abi_major) == 16, "note: header, name, 88 bytes");

static uint64_t pad(uint64_t n, uint64_t to) { return (n + to - 1) & ~(to - 1); }

/* Takes the note at offset off when it is one of ours. */
static tn_status take(const tn_elf *elf, uint64_t off, const Elf64_Nhdr *nh, tn_notes *out, tn_err *err)
{
  char name[4];
  if (nh->n_namesz != sizeof name || nh->n_type != TN_NOTE_TYPE) return TN_OK;
  if (!tn_elf_read(elf, off + sizeof *nh, name, sizeof name) || memcmp(name, OWNER, sizeof name) != 0) return TN_OK;
  if (nh->n_descsz != sizeof(tn_note) - offsetof(tn_note, abi_major))
    return tn_fail(err, TN_E_UNSUPPORTED, "%s: its Tenon note has %u bytes, want %zu", elf->file, nh->n_descsz,
                   sizeof(tn_note) - offsetof(tn_note, abi_major));
  if (out->n == TN_NOTE_MAX)
    return tn_fail(err, TN_E_UNSUPPORTED, "%s: has more than %d Tenon notes", elf->file, TN_NOTE_MAX);
  if (!tn_elf_read(elf, off, &out->at[out->n], sizeof(tn_note)))
    return tn_fail(err, TN_E_UNSUPPORTED, "%s: its Tenon note ends outside the file", elf->file);
  out->n++;
  return TN_OK;
}

/* Walks one PT_NOTE segment. */
static tn_status walk(const tn_elf *elf, const Elf64_Phdr *p, tn_notes *out, tn_err *err)
{
  uint64_t align = p->p_align == 8 ? 8 : 4, at = 0;
  if (p->p_filesz > MAX_SEGMENT)
    return tn_fail(err, TN_E_UNSUPPORTED, "%s: a note segment has %llu bytes, at most %u are read", elf->file,
                   (unsigned long long)p->p_filesz, MAX_SEGMENT);
  while (at + sizeof(Elf64_Nhdr) <= p->p_filesz) {
    Elf64_Nhdr nh;
    if (p->p_offset > UINT64_MAX - at || !tn_elf_read(elf, p->p_offset + at, &nh, sizeof nh))
      return tn_fail(err, TN_E_UNSUPPORTED,
                     "%s: truncated: a note segment needs %llu bytes at offset %llu, the file has %llu", elf->file,
                     (unsigned long long)p->p_filesz, (unsigned long long)p->p_offset,
                     (unsigned long long)elf->src.size);
    uint64_t end = pad(sizeof nh + (uint64_t)nh.n_namesz, align) + (uint64_t)nh.n_descsz;
    if (end > p->p_filesz - at)
      return tn_fail(err, TN_E_UNSUPPORTED, "%s: the note at offset %llu ends outside its segment", elf->file,
                     (unsigned long long)p->p_offset + at);
    tn_status st = take(elf, p->p_offset + at, &nh, out, err);
    if (st != TN_OK) return st;
    at += pad(end, align);
    if (at > p->p_filesz) break;
  }
  return TN_OK;
}

/* A section .note.tenon, where there is one, is the same run of notes as in the segments. */
static tn_status compare_section(const tn_elf *elf, const tn_notes *notes, tn_err *err)
{
  const Elf64_Shdr *s = tn_elf_section(elf, ".note.tenon");
  if (!s) return TN_OK;
  if (s->sh_type != SHT_NOTE)
    return tn_fail(err, TN_E_UNSUPPORTED, "%s: section .note.tenon has type %u, want %u (SHT_NOTE)", elf->file,
                   s->sh_type, SHT_NOTE);
  if (s->sh_size != notes->n * sizeof(tn_note))
    return tn_fail(err, TN_E_UNSUPPORTED,
                   "%s: section .note.tenon has %llu bytes, the note segments hold %zu notes of %zu bytes", elf->file,
                   (unsigned long long)s->sh_size, notes->n, sizeof(tn_note));
  for (size_t i = 0; i < notes->n; i++) {
    tn_note n;
    if (s->sh_offset > UINT64_MAX - i * sizeof n || !tn_elf_read(elf, s->sh_offset + i * sizeof n, &n, sizeof n) ||
        memcmp(&n, &notes->at[i], sizeof n) != 0)
      return tn_fail(err, TN_E_UNSUPPORTED, "%s: note %zu differs between section .note.tenon and its segment",
                     elf->file, i);
  }
  return TN_OK;
}

tn_status tn_notes_read(const tn_elf *elf, tn_notes *out, tn_err *err)
{
  memset(out, 0, sizeof *out);
  for (size_t i = 0; i < elf->n_ph; i++) {
    if (elf->ph[i].p_type != PT_NOTE) continue;
    tn_status st = walk(elf, &elf->ph[i], out, err);
    if (st != TN_OK) return st;
  }
  tn_status st = compare_section(elf, out, err);
  if (st != TN_OK) return st;
  if (out->n == 0)
    return tn_fail(err, TN_E_UNSUPPORTED, "%s: has no Tenon note: not a plugin, or built without TN_NOTE", elf->file);
  return TN_OK;
}

static tn_status check_abi(const tn_note *n, const char *file, tn_err *err)
{
  if (n->abi_major != TN_ABI_MAJOR)
    return tn_fail(err, TN_E_VERSION, "%s: built for plugin ABI major %u, this host has %u", file, n->abi_major,
                   TN_ABI_MAJOR);
  if (n->abi_minor != TN_ABI_MINOR)
    return tn_fail(
        err, TN_E_VERSION,
        "%s: built for plugin ABI %u.%u, this host has %u.%u (equal minors are needed while the major is 0): "
        "compile it again with this host's header",
        file, n->abi_major, n->abi_minor, TN_ABI_MAJOR, TN_ABI_MINOR);
  if (n->abi_min_minor > TN_ABI_MINOR)
    return tn_fail(err, TN_E_VERSION, "%s: wants a host of plugin ABI %u.%u or later, this host has %u.%u", file,
                   n->abi_major, n->abi_min_minor, TN_ABI_MAJOR, TN_ABI_MINOR);
  return TN_OK;
}

tn_status tn_note_check(const tn_note *n, const char *file, uint32_t isa, tn_err *err)
{
  tn_status st = check_abi(n, file, err);
  if (st != TN_OK) return st;
  if (n->isa > TN_ISA_AVX512)
    return tn_fail(err, TN_E_VERSION, "%s: its note asks for instruction set %u, this host knows 0 to %d", file, n->isa,
                   TN_ISA_AVX512);
  if (n->isa > isa)
    return tn_fail(err, TN_E_VERSION, "%s: needs the instruction set %s, this processor has %s", file,
                   tn_isa_name(n->isa), tn_isa_name(isa));
  if (n->slot < TN_SLOT_BACKEND || n->slot > TN_SLOT_PARALLEL)
    return tn_fail(err, TN_E_UNSUPPORTED, "%s: its note has slot %u, slots are %d to %d", file, n->slot,
                   TN_SLOT_BACKEND, TN_SLOT_PARALLEL);
  if (n->reserved0 != 0)
    return tn_fail(err, TN_E_UNSUPPORTED, "%s: the reserved word of its note is %u, want 0", file, n->reserved0);
  size_t len = strnlen(n->id, sizeof n->id);
  for (size_t i = len; i < sizeof n->id; i++)
    if (n->id[i] != 0) return tn_fail(err, TN_E_UNSUPPORTED, "%s: the id in its note has bytes after its end", file);
  if (len == sizeof n->id || !tn_is_id(n->id))
    return tn_fail(err, TN_E_UNSUPPORTED,
                   "%s: the id in its note is '%.*s', want lower-case words joined by dots, at most %zu bytes", file,
                   (int)len, n->id, sizeof n->id - 1);
  return TN_OK;
}

uint32_t tn_isa_of_host(void)
{
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  bool f16c = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
  bool avx2 = f16c && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  if (avx2 && avx512) return TN_ISA_AVX512;
  if (avx2) return TN_ISA_AVX2;
#endif
  return TN_ISA_BASE;
}

const char *tn_isa_name(uint32_t isa)
{
  static const char *const names[] = {"baseline", "AVX2", "AVX-512"};
  return isa < TN_ARRAY_LEN(names) ? names[isa] : "unknown";
}
