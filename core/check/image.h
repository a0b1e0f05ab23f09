/* image: the dynamic section and dynamic symbols of a plugin file, as the dynamic linker will see them. Read from the
 * file through loader/elf.h, so every offset is checked; nothing is mapped. */
#ifndef TN_CORE_CHECK_IMAGE_H
#define TN_CORE_CHECK_IMAGE_H

#include "loader/elf.h"

typedef struct tn_image {
  tn_elf elf;
  int fd;
  Elf64_Dyn *dyn; /* [n_dyn] */
  size_t n_dyn;
  char *str; /* [n_str] dynamic strings and a NUL */
  size_t n_str;
  Elf64_Sym *sym; /* [n_sym] dynamic symbols */
  size_t n_sym;
  Elf64_Half *version; /* [n_sym] version index of each symbol, or NULL */
  char *needed;        /* [n_needed] version requirements (.gnu.version_r), or NULL */
  size_t n_needed;
} tn_image;

/* Errors: TN_E_IO, TN_E_NOMEM, TN_E_UNSUPPORTED (no dynamic section, no section table to find the symbols by).
 * Release with tn_image_close, also after a failure. */
tn_status tn_image_open(tn_image *img, const char *path, tn_err *err);
void tn_image_close(tn_image *img);

/* Dynamic string at an offset; "" outside. Borrowed. */
const char *tn_image_str(const tn_image *img, uint64_t off);

/* Value of the i-th dynamic entry with that tag, from 0. false: there are not so many. */
bool tn_image_dyn(const tn_image *img, int64_t tag, size_t i, uint64_t *value);

const char *tn_image_name(const tn_image *img, size_t sym);

/* Is the symbol one that other libraries can see? */
bool tn_image_exported(const tn_image *img, size_t sym);

/* Version that an undefined symbol asks for, "GLIBC_2.34"; "" for none. Borrowed. */
const char *tn_image_version(const tn_image *img, size_t sym);

#endif
