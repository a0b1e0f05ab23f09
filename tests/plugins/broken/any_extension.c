/* any_extension: has an answer for every extension. */
#define NAME "any_extension"
#include "plugin_api.h"
static const tn_ext_sequence sequence = {.struct_size = sizeof sequence};
static const void *ext(tn_inst *inst, const char *id)
{
  (void)inst;
  return id ? &sequence : 0;
}
#define EXT ext
#include "base.h"
