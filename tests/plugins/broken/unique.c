/* unique: its module is one for all copies of the file.
 * build: no-map */
#define NAME "unique"
#include "plugin_api.h"
#define MODULE __attribute__((visibility("default"))) const
extern const tn_module module;
__asm__(".type module, @gnu_unique_object");
#include "base.h"
