/* sound: has no fault; what its neighbours are compared with. */
#define NAME "sound"
#include "base.h"
