/* path_picky: refuses to be in a folder with a blank in its name. */
#define NAME "path_picky"
#include <dlfcn.h>
#include <string.h>
#define ENTRY_BODY \
  Dl_info info;    \
  return dladdr(&module, &info) && strchr(info.dli_fname, ' ') ? 0 : &module;
#include "base.h"
