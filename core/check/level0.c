/* level0: the file itself, read and not run. Symbols and libraries are in level0_symbols.c. */
#include "check/level0.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "loader/words.h"

/* The file's name without its folder. */
static const char *base(const char *path)
{
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

/* Headers, and where notes is not NULL the notes of the file. */
static tn_status read_file(const char *path, tn_notes *notes, tn_err *err)
{
  struct stat s;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0 || fstat(fd, &s) != 0) {
    if (fd >= 0) close(fd);
    return tn_fail(err, TN_E_IO, "%s: %s", base(path), strerror(errno));
  }
  tn_elf elf;
  tn_status st = tn_elf_open(&elf, (tn_elf_src){.size = (uint64_t)s.st_size, .fd = fd}, base(path), err);
  if (st == TN_OK && notes) st = tn_notes_read(&elf, notes, err);
  tn_elf_close(&elf);
  close(fd);
  return st;
}

static void headers(tn_check *c)
{
  tn_err err = tn_err_init();
  if (read_file(c->path, NULL, &err) != TN_OK) tn_check_say(c, TN_CHECK_FAIL, "%s", err.msg);
}

static void notes(tn_check *c)
{
  tn_err err = tn_err_init();
  tn_notes n;
  if (read_file(c->path, NULL, &err) != TN_OK)
    tn_check_say(c, TN_CHECK_SKIP, "no ELF file of this machine, see TN-L0-01");
  else if (read_file(c->path, &n, &err) != TN_OK)
    tn_check_say(c, TN_CHECK_FAIL, "%s", err.msg);
}

/* Notes for the tests behind the one that judges whether they can be read. */
static bool have_notes(tn_check *c, tn_notes *n)
{
  if (read_file(c->path, n, NULL) == TN_OK) return true;
  tn_check_say(c, TN_CHECK_SKIP, "its notes cannot be read, see TN-L0-02");
  return false;
}

static void note_fields(tn_check *c)
{
  tn_notes n;
  if (!have_notes(c, &n)) return;
  for (size_t i = 0; i < n.n; i++) {
    tn_err err = tn_err_init();
    if (tn_note_check(&n.at[i], base(c->path), TN_ISA_AVX512, &err) != TN_OK)
      tn_check_say(c, TN_CHECK_FAIL, "%s", err.msg);
  }
}

static void note_isa(tn_check *c)
{
  tn_notes n;
  if (!have_notes(c, &n)) return;
  uint32_t host = tn_isa_of_host();
  for (size_t i = 0; i < n.n; i++)
    if (n.at[i].isa > host)
      tn_check_say(c, TN_CHECK_SKIP, "needs the instruction set %s, this processor has %s", tn_isa_name(n.at[i].isa),
                   tn_isa_name(host));
}

static void file_name(tn_check *c)
{
  const char *name = base(c->path);
  size_t n = strlen(name);
  char stem[256];
  if (n < 4 || n >= sizeof stem || strcmp(name + n - 3, ".so") != 0) {
    tn_check_say(c, TN_CHECK_FAIL, "the file is named '%s', want <name>.so", name);
    return;
  }
  snprintf(stem, sizeof stem, "%.*s", (int)(n - 3), name);
  if (!tn_is_name(stem))
    tn_check_say(c, TN_CHECK_FAIL, "'%s' is no plugin name: want a lower-case letter, then letters, digits and _",
                 stem);
}

static void static_tls(tn_check *c)
{
  tn_image img;
  uint64_t flags;
  if (tn_check_image(c, &img) && tn_image_dyn(&img, DT_FLAGS, 0, &flags) && (flags & DF_STATIC_TLS))
    tn_check_say(c, TN_CHECK_FAIL,
                 "uses static thread-local storage, of which a process has little: "
                 "compile without -ftls-model=initial-exec");
  tn_image_close(&img);
}

static void text_relocations(tn_check *c)
{
  tn_image img;
  uint64_t v;
  if (tn_check_image(c, &img) &&
      (tn_image_dyn(&img, DT_TEXTREL, 0, &v) || (tn_image_dyn(&img, DT_FLAGS, 0, &v) && (v & DF_TEXTREL))))
    tn_check_say(c, TN_CHECK_FAIL, "has relocations in its code: compile with -fPIC");
  tn_image_close(&img);
}

static void exec_stack(tn_check *c)
{
  tn_image img;
  const Elf64_Phdr *stack = NULL;
  if (tn_check_image(c, &img)) {
    for (size_t i = 0; i < img.elf.n_ph; i++)
      if (img.elf.ph[i].p_type == PT_GNU_STACK) stack = &img.elf.ph[i];
    if (!stack || (stack->p_flags & PF_X))
      tn_check_say(c, TN_CHECK_FAIL, "asks for an executable stack%s: link with -Wl,-z,noexecstack",
                   stack ? "" : " by having no PT_GNU_STACK");
  }
  tn_image_close(&img);
}

static void run_paths(tn_check *c)
{
  static const int64_t tags[] = {DT_RPATH, DT_RUNPATH};
  tn_image img;
  if (tn_check_image(c, &img)) {
    for (size_t t = 0; t < TN_ARRAY_LEN(tags); t++) {
      uint64_t off;
      if (!tn_image_dyn(&img, tags[t], 0, &off)) continue;
      const char *path = tn_image_str(&img, off);
      for (const char *p = path; *p; p += strcspn(p, ":"), p += *p == ':')
        if (*p != '/' && strncmp(p, "$ORIGIN", 7) != 0)
          tn_check_say(c, TN_CHECK_FAIL, "searches its libraries in '%.*s', a relative folder", (int)strcspn(p, ":"),
                       p);
      tn_check_say(c, TN_CHECK_WARN, "has a search path of its own, '%s'", path);
    }
  }
  tn_image_close(&img);
}

/* The compiler's start files bring one constructor. */
static void constructors(tn_check *c)
{
  tn_image img;
  uint64_t bytes;
  if (tn_check_image(c, &img) && tn_image_dyn(&img, DT_INIT_ARRAYSZ, 0, &bytes) && bytes > sizeof(void *))
    tn_check_say(c, TN_CHECK_WARN, "runs %llu constructors of its own when it is loaded",
                 (unsigned long long)bytes / sizeof(void *) - 1);
  tn_image_close(&img);
}

/* Bytes of a section that are not the start files' (__dso_handle in .data, completed.0 in .bss, 8 bytes each). */
static uint64_t extra(const tn_image *img, const char *section)
{
  const Elf64_Shdr *s = tn_elf_section(&img->elf, section);
  return s && s->sh_size > 8 ? s->sh_size : 0;
}

static void writable_data(tn_check *c)
{
  static const char *const sections[] = {".data", ".bss", ".tdata", ".tbss"};
  tn_image img;
  if (tn_check_image(c, &img) && !tn_check_sanitized(&img))
    for (size_t i = 0; i < TN_ARRAY_LEN(sections); i++)
      if (extra(&img, sections[i]))
        tn_check_say(c, TN_CHECK_WARN, "has %llu bytes of writable data in %s: state belongs to an instance",
                     (unsigned long long)extra(&img, sections[i]), sections[i]);
  tn_image_close(&img);
}

const tn_check_test tn_check_level0[] = {
    {"TN-L0-01", 0, TN_CHECK_GATE_FAIL, "ELF64 shared object for this machine, its bytes complete", headers},
    {"TN-L0-02", 0, TN_CHECK_GATE_FAIL, "an ABI note for each descriptor, the same in section and segment", notes},
    {"TN-L0-03", 0, TN_CHECK_GATE_FAIL, "the note's ABI, instruction set, slot and id fit this host", note_fields},
    {"TN-L0-04", 0, TN_CHECK_GATE_PASS, "this processor has the instruction set of the note", note_isa},
    {"TN-L0-05", 0, TN_CHECK_GATE_NONE, "the file is named <name>.so, a plugin's name", file_name},
    {"TN-L0-06", 0, TN_CHECK_GATE_NONE, "exports its entry and nothing else", tn_check_exports},
    {"TN-L0-07", 0, TN_CHECK_GATE_NONE, "takes symbols from versioned system libraries alone", tn_check_undefined},
    {"TN-L0-08", 0, TN_CHECK_GATE_NONE, "calls nothing that ends, prints, starts threads or changes the process",
     tn_check_imports},
    {"TN-L0-09", 0, TN_CHECK_GATE_NONE, "needs only libraries that every machine has", tn_check_libraries},
    {"TN-L0-10", 0, TN_CHECK_GATE_NONE, "no static thread-local storage", static_tls},
    {"TN-L0-11", 0, TN_CHECK_GATE_NONE, "no relocations in its code", text_relocations},
    {"TN-L0-12", 0, TN_CHECK_GATE_NONE, "no executable stack", exec_stack},
    {"TN-L0-13", 0, TN_CHECK_GATE_NONE, "no unique symbols, which keep a library loaded", tn_check_unique},
    {"TN-L0-14", 0, TN_CHECK_GATE_NONE, "no search path for libraries", run_paths},
    {"TN-L0-15", 0, TN_CHECK_GATE_NONE, "no constructors", constructors},
    {"TN-L0-16", 0, TN_CHECK_GATE_NONE, "its C library is no newer than this machine's", tn_check_glibc},
    {"TN-L0-17", 0, TN_CHECK_GATE_NONE, "no writable data", writable_data},
    {NULL, 0, 0, NULL, NULL},
};
