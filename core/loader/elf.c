/* elf: see elf.h. */
#include "loader/elf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__)
#define MACHINE EM_X86_64
#define MACHINE_NAME "x86-64"
#elif defined(__aarch64__)
#define MACHINE EM_AARCH64
#define MACHINE_NAME "aarch64"
#else
#error "the plugin loader knows x86-64 and aarch64"
#endif

#define MAX_SEGMENTS 1024u
#define MAX_COPY (256u << 20)

static bool inside(uint64_t off, uint64_t n, uint64_t size) { return off <= size && n <= size - off; }

bool tn_elf_read(const tn_elf *elf, uint64_t off, void *buf, size_t n)
{
  if (!inside(off, n, elf->src.size)) return false;
  if (elf->src.mem) {
    if (n) memcpy(buf, elf->src.mem + off, n);
    return true;
  }
  for (size_t done = 0; done < n;) {
    ssize_t got = pread(elf->src.fd, (char *)buf + done, n - done, (off_t)(off + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    done += (size_t)got;
  }
  return true;
}

char *tn_elf_copy(const tn_elf *elf, uint64_t off, uint64_t n)
{
  if (n > MAX_COPY || !inside(off, n, elf->src.size)) return NULL;
  char *p = malloc((size_t)n + 1);
  if (p && tn_elf_read(elf, off, p, (size_t)n)) {
    p[n] = '\0';
    return p;
  }
  free(p);
  return NULL;
}

static tn_status check_ident(const tn_elf *elf, tn_err *err)
{
  const Elf64_Ehdr *eh = &elf->eh;
  if (memcmp(eh->e_ident, ELFMAG, SELFMAG) != 0)
    return tn_fail(err, TN_E_UNSUPPORTED, "%s: not an ELF file: it begins with %02x %02x %02x %02x", elf->file,
                   eh->e_ident[0], eh->e_ident[1], eh->e_ident[2], eh->e_ident[3]);
  if (eh->e_ident[EI_CLASS] != ELFCLASS64)
    return tn_fail(err, TN_E_UNSUPPORTED, "%s: ELF class is %u, want %u (64 bit)", elf->file, eh->e_ident[EI_CLASS],
                   ELFCLASS64);
  if (eh->e_ident[EI_DATA] != ELFDATA2LSB)
    return tn_fail(err, TN_E_UNSUPPORTED, "%s: ELF byte order is %u, want %u (little endian)", elf->file,
                   eh->e_ident[EI_DATA], ELFDATA2LSB);
  if (eh->e_ident[EI_VERSION] != EV_CURRENT)
    return tn_fail(err, TN_E_UNSUPPORTED, "%s: ELF version is %u, want %u", elf->file, eh->e_ident[EI_VERSION],
                   EV_CURRENT);
  if (eh->e_machine != MACHINE)
    return tn_fail(err, TN_E_UNSUPPORTED, "%s: built for ELF machine %u, this host is %u (" MACHINE_NAME ")", elf->file,
                   eh->e_machine, MACHINE);
  if (eh->e_type != ET_DYN)
    return tn_fail(err, TN_E_UNSUPPORTED, "%s: ELF type is %u, want %u (shared object)", elf->file, eh->e_type, ET_DYN);
  return TN_OK;
}

/* Reads a table of n entries of size bytes at off, which must lie inside the file. */
static tn_status read_table(const tn_elf *elf, const char *what, uint64_t off, size_t n, size_t size, void **out,
                            tn_err *err)
{
  uint64_t bytes = (uint64_t)n * size;
  if (!inside(off, bytes, elf->src.size))
    return tn_fail(err, TN_E_UNSUPPORTED,
                   "%s: truncated: the %s table needs %llu bytes at offset %llu, the file has %llu", elf->file, what,
                   (unsigned long long)bytes, (unsigned long long)off, (unsigned long long)elf->src.size);
  void *p = malloc((size_t)bytes);
  if (!p) return tn_fail(err, TN_E_NOMEM, "%s: no memory for the %s table", elf->file, what);
  if (!tn_elf_read(elf, off, p, (size_t)bytes)) {
    free(p);
    return tn_fail(err, TN_E_IO, "%s: cannot read the %s table", elf->file, what);
  }
  *out = p;
  return TN_OK;
}

static tn_status read_segments(tn_elf *elf, tn_err *err)
{
  const Elf64_Ehdr *eh = &elf->eh;
  if (eh->e_phnum == 0 || eh->e_phnum > MAX_SEGMENTS)
    return tn_fail(err, TN_E_UNSUPPORTED, "%s: has %u segments, want 1 to %u", elf->file, eh->e_phnum, MAX_SEGMENTS);
  if (eh->e_phentsize != sizeof(Elf64_Phdr))
    return tn_fail(err, TN_E_UNSUPPORTED, "%s: segment headers have %u bytes, want %zu", elf->file, eh->e_phentsize,
                   sizeof(Elf64_Phdr));
  void *table = NULL;
  tn_status st = read_table(elf, "segment", eh->e_phoff, eh->e_phnum, sizeof(Elf64_Phdr), &table, err);
  if (st != TN_OK) return st;
  elf->ph = table;
  elf->n_ph = eh->e_phnum;
  size_t loads = 0;
  for (size_t i = 0; i < elf->n_ph; i++) {
    const Elf64_Phdr *p = &elf->ph[i];
    if (p->p_type != PT_LOAD) continue;
    loads++;
    if (!inside(p->p_offset, p->p_filesz, elf->src.size))
      return tn_fail(err, TN_E_UNSUPPORTED,
                     "%s: truncated: segment %zu needs %llu bytes at offset %llu, the file has %llu", elf->file, i,
                     (unsigned long long)p->p_filesz, (unsigned long long)p->p_offset,
                     (unsigned long long)elf->src.size);
    if (p->p_filesz > p->p_memsz || p->p_vaddr > UINT64_MAX - p->p_memsz)
      return tn_fail(err, TN_E_UNSUPPORTED, "%s: segment %zu has %llu bytes in the file and %llu in memory", elf->file,
                     i, (unsigned long long)p->p_filesz, (unsigned long long)p->p_memsz);
  }
  if (loads == 0) return tn_fail(err, TN_E_UNSUPPORTED, "%s: has no segment to load", elf->file);
  return TN_OK;
}

static tn_status read_sections(tn_elf *elf, tn_err *err)
{
  const Elf64_Ehdr *eh = &elf->eh;
  if (eh->e_shoff == 0 || eh->e_shnum == 0) return TN_OK;
  if (eh->e_shentsize != sizeof(Elf64_Shdr))
    return tn_fail(err, TN_E_UNSUPPORTED, "%s: section headers have %u bytes, want %zu", elf->file, eh->e_shentsize,
                   sizeof(Elf64_Shdr));
  void *table = NULL;
  tn_status st = read_table(elf, "section", eh->e_shoff, eh->e_shnum, sizeof(Elf64_Shdr), &table, err);
  if (st != TN_OK) return st;
  elf->sh = table;
  elf->n_sh = eh->e_shnum;
  return TN_OK;
}

tn_status tn_elf_open(tn_elf *elf, tn_elf_src src, const char *file, tn_err *err)
{
  *elf = (tn_elf){.src = src, .file = file};
  if (!tn_elf_read(elf, 0, &elf->eh, sizeof elf->eh))
    return tn_fail(err, TN_E_UNSUPPORTED, "%s: not an ELF file: it has %llu bytes, an ELF header has %zu", file,
                   (unsigned long long)src.size, sizeof elf->eh);
  tn_status st = check_ident(elf, err);
  if (st == TN_OK) st = read_segments(elf, err);
  if (st == TN_OK) st = read_sections(elf, err);
  return st;
}

void tn_elf_close(tn_elf *elf)
{
  free(elf->ph);
  free(elf->sh);
  elf->ph = NULL;
  elf->sh = NULL;
  elf->n_ph = elf->n_sh = 0;
}

const Elf64_Shdr *tn_elf_section(const tn_elf *elf, const char *name)
{
  if (elf->eh.e_shstrndx >= elf->n_sh) return NULL;
  const Elf64_Shdr *strings = &elf->sh[elf->eh.e_shstrndx];
  size_t want = strlen(name) + 1;
  char got[64];
  if (want > sizeof got) return NULL;
  for (size_t i = 0; i < elf->n_sh; i++) {
    uint64_t at = elf->sh[i].sh_name;
    if (!inside(at, want, strings->sh_size) || strings->sh_offset > UINT64_MAX - at) continue;
    if (tn_elf_read(elf, strings->sh_offset + at, got, want) && memcmp(got, name, want) == 0) return &elf->sh[i];
  }
  return NULL;
}

bool tn_elf_offset(const tn_elf *elf, uint64_t vaddr, uint64_t n, uint64_t *off)
{
  for (size_t i = 0; i < elf->n_ph; i++) {
    const Elf64_Phdr *p = &elf->ph[i];
    if (p->p_type != PT_LOAD || vaddr < p->p_vaddr) continue;
    if (!inside(vaddr - p->p_vaddr, n, p->p_filesz)) continue;
    *off = p->p_offset + (vaddr - p->p_vaddr);
    return true;
  }
  return false;
}
