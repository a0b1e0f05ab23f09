/* elf: bounded reading of an ELF64 shared object, from a file or from memory. Nothing is mapped or executed, and every
 * offset is checked against the file's size before it is used. One reader serves one thread. */
#ifndef TN_CORE_LOADER_ELF_H
#define TN_CORE_LOADER_ELF_H

#include <elf.h>

#include "base.h"

/* The bytes: memory when mem is set, else a file opened for reading. Borrowed. */
typedef struct tn_elf_src {
  const uint8_t *mem;
  uint64_t size;
  int fd;
} tn_elf_src;

typedef struct tn_elf {
  tn_elf_src src;
  const char *file; /* for messages; borrowed */
  Elf64_Ehdr eh;
  Elf64_Phdr *ph; /* [n_ph] segments */
  Elf64_Shdr *sh; /* [n_sh] sections; none in a file stripped of its section table */
  size_t n_ph, n_sh;
} tn_elf;

/* Reads and checks the headers: ELF64, little endian, shared object for this machine; segment and section tables inside
 * the file; bytes of every PT_LOAD inside the file. Release with tn_elf_close, also after a failure.
 * Errors: TN_E_UNSUPPORTED, each with the file and both values; TN_E_NOMEM. */
tn_status tn_elf_open(tn_elf *elf, tn_elf_src src, const char *file, tn_err *err);
void tn_elf_close(tn_elf *elf);

/* n bytes at offset off of the file into buf. false: not inside the file, or unreadable. */
bool tn_elf_read(const tn_elf *elf, uint64_t off, void *buf, size_t n);

/* Copy of a range of the file, NUL after it, free with free(). NULL: outside the file, over the limit of 256 MiB, no
 * memory. */
char *tn_elf_copy(const tn_elf *elf, uint64_t off, uint64_t n);

/* First section of that name, NULL: none. */
const Elf64_Shdr *tn_elf_section(const tn_elf *elf, const char *name);

/* File offset of n bytes at a virtual address, in *off. false: in no PT_LOAD's file bytes. */
bool tn_elf_offset(const tn_elf *elf, uint64_t vaddr, uint64_t n, uint64_t *off);

#endif
