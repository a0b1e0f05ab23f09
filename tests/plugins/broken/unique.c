/* unique: its module is one for all copies of the file: a symbol that the dynamic linker keeps only once.
 * build: no-map */
#define NAME "unique"
#include "plugin_api.h"
__asm__(".pushsection .bss\n"
        ".balign 8\n"
        ".globl shared\n"
        ".type shared, @gnu_unique_object\n"
        ".size shared, 72\n"
        "shared: .zero 72\n"
        ".popsection\n");
extern tn_module shared;
#define ENTRY_BODY \
  shared = module; \
  return &shared;
#include "base.h"
