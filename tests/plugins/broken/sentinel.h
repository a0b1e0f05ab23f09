/* sentinel: a constructor that leaves a trace in the environment, for files none of whose code may run. */
#include <stdlib.h>

__attribute__((constructor)) static void sentinel(void) { setenv("TN_TEST_CONSTRUCTOR", NAME, 1); }
