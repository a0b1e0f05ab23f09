/* another_module: gives another module of the same content every time. */
#define NAME "another_module"
#include "plugin_api.h"
static tn_module copies[64];
static int calls;
#define ENTRY_BODY             \
  copies[calls & 63] = module; \
  return &copies[calls++ & 63];
#include "base.h"
