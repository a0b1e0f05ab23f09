/* shuts_down: no fault; leaves a trace in the environment when its loader ends. */
#define NAME "shuts_down"
#include <stdlib.h>
static void end(void) { setenv("TN_TEST_SHUTDOWN", "once", 1); }
#define SHUTDOWN end
#include "base.h"
