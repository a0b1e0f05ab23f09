/* text_relocations: has a relocation in its code.
 * build: -Wl,-z,notext */
#define NAME "text_relocations"
__asm__(".pushsection .text\n.quad tn_module_v0\n.popsection\n");
#include "base.h"
