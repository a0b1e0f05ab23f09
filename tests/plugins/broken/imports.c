/* imports: may end its process and prints. */
#define NAME "imports"
#include <stdio.h>
#include <stdlib.h>
#include "plugin_api.h"
static void destroy(tn_inst *inst)
{
  puts("gone");
  if (inst) exit(1);
}
#define DESTROY destroy
#include "base.h"
