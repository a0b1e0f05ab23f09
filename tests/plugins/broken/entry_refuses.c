/* entry_refuses: its entry returns NULL and says why. */
#define NAME "entry_refuses"
#define NO_MODULE
#define ENTRY_BODY                                                \
  static const char why[] = "the moon is in the wrong phase";     \
  err->code = TN_E_DEVICE;                                        \
  for (unsigned i = 0; i < sizeof why; i++) err->msg[i] = why[i]; \
  return (void)DESC, NULL;
#include "base.h"
