/* image: see image.h. */
#include "check/image.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* First section of a type, NULL: none. */
static const Elf64_Shdr *section_of(const tn_image *img, uint32_t type)
{
  for (size_t i = 0; i < img->elf.n_sh; i++)
    if (img->elf.sh[i].sh_type == type) return &img->elf.sh[i];
  return NULL;
}

static tn_status read_dynamic(tn_image *img, tn_err *err)
{
  const Elf64_Phdr *p = NULL;
  for (size_t i = 0; i < img->elf.n_ph; i++)
    if (img->elf.ph[i].p_type == PT_DYNAMIC) p = &img->elf.ph[i];
  if (!p) return tn_fail(err, TN_E_UNSUPPORTED, "has no dynamic section");
  img->dyn = (Elf64_Dyn *)(void *)tn_elf_copy(&img->elf, p->p_offset, p->p_filesz);
  if (!img->dyn) return tn_fail(err, TN_E_UNSUPPORTED, "its dynamic section is outside the file");
  size_t n = p->p_filesz / sizeof(Elf64_Dyn);
  while (img->n_dyn < n && img->dyn[img->n_dyn].d_tag != DT_NULL) img->n_dyn++;
  return TN_OK;
}

/* A section's bytes, NULL when there is none. */
static char *copy_section(const tn_image *img, const Elf64_Shdr *s, size_t *n)
{
  *n = s ? (size_t)s->sh_size : 0;
  return s ? tn_elf_copy(&img->elf, s->sh_offset, s->sh_size) : NULL;
}

static tn_status read_symbols(tn_image *img, tn_err *err)
{
  const Elf64_Shdr *syms = section_of(img, SHT_DYNSYM);
  if (!syms || syms->sh_link >= img->elf.n_sh)
    return tn_fail(err, TN_E_UNSUPPORTED, "has no section table, so its symbols cannot be listed");
  size_t bytes;
  img->sym = (Elf64_Sym *)(void *)copy_section(img, syms, &bytes);
  img->n_sym = bytes / sizeof(Elf64_Sym);
  img->str = copy_section(img, &img->elf.sh[syms->sh_link], &img->n_str);
  if (!img->sym || !img->str) return tn_fail(err, TN_E_UNSUPPORTED, "its dynamic symbols are outside the file");
  img->version = (Elf64_Half *)(void *)copy_section(img, section_of(img, SHT_GNU_versym), &bytes);
  if (img->version && bytes < img->n_sym * sizeof(Elf64_Half))
    return tn_fail(err, TN_E_UNSUPPORTED, "has fewer symbol versions than symbols");
  img->needed = copy_section(img, section_of(img, SHT_GNU_verneed), &img->n_needed);
  return TN_OK;
}

tn_status tn_image_open(tn_image *img, const char *path, tn_err *err)
{
  struct stat st;
  *img = (tn_image){.fd = open(path, O_RDONLY | O_CLOEXEC)};
  if (img->fd < 0 || fstat(img->fd, &st) != 0) return tn_fail(err, TN_E_IO, "%s", strerror(errno));
  tn_status rc = tn_elf_open(&img->elf, (tn_elf_src){.size = (uint64_t)st.st_size, .fd = img->fd}, path, err);
  if (rc == TN_OK) rc = read_dynamic(img, err);
  if (rc == TN_OK) rc = read_symbols(img, err);
  return rc;
}

void tn_image_close(tn_image *img)
{
  tn_elf_close(&img->elf);
  if (img->fd >= 0) close(img->fd);
  free(img->dyn);
  free(img->str);
  free(img->sym);
  free(img->version);
  free(img->needed);
  *img = (tn_image){.fd = -1};
}

const char *tn_image_str(const tn_image *img, uint64_t off) { return off < img->n_str ? img->str + off : ""; }

bool tn_image_dyn(const tn_image *img, int64_t tag, size_t i, uint64_t *value)
{
  for (size_t k = 0; k < img->n_dyn; k++) {
    if (img->dyn[k].d_tag != tag || i-- != 0) continue;
    *value = img->dyn[k].d_un.d_val;
    return true;
  }
  return false;
}

const char *tn_image_name(const tn_image *img, size_t sym) { return tn_image_str(img, img->sym[sym].st_name); }

bool tn_image_exported(const tn_image *img, size_t sym)
{
  const Elf64_Sym *s = &img->sym[sym];
  unsigned char visibility = ELF64_ST_VISIBILITY(s->st_other);
  return s->st_shndx != SHN_UNDEF && ELF64_ST_BIND(s->st_info) != STB_LOCAL &&
         (visibility == STV_DEFAULT || visibility == STV_PROTECTED);
}

const char *tn_image_version(const tn_image *img, size_t sym)
{
  if (!img->version || !img->needed) return "";
  unsigned index = img->version[sym] & 0x7fffu;
  for (size_t at = 0, left = 256; left && at + sizeof(Elf64_Verneed) <= img->n_needed; left--) {
    Elf64_Verneed need;
    memcpy(&need, img->needed + at, sizeof need);
    size_t aux = at + need.vn_aux;
    for (unsigned k = 0; k < need.vn_cnt && aux + sizeof(Elf64_Vernaux) <= img->n_needed; k++) {
      Elf64_Vernaux v;
      memcpy(&v, img->needed + aux, sizeof v);
      if (v.vna_other == index) return tn_image_str(img, v.vna_name);
      if (v.vna_next == 0) break;
      aux += v.vna_next;
    }
    if (need.vn_next == 0) break;
    at += need.vn_next;
  }
  return "";
}
