/* no_note: has no note. */
#define NAME "no_note"
#define NO_NOTE
#include "base.h"
