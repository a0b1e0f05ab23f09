/* exec_stack: asks for an executable stack.
 * build: -Wl,-z,execstack */
#define NAME "exec_stack"
#include "base.h"
