/* replaced: exports a function of its descriptor, which another library can replace.
 * build: no-map */
#define NAME "replaced"
#include "plugin_api.h"
__attribute__((visibility("default"))) void helper_destroy(tn_inst *inst);
void helper_destroy(tn_inst *inst) { (void)inst; }
#define DESTROY helper_destroy
#include "base.h"
