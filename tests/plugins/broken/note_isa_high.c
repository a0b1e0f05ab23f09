/* note_isa_high: needs an instruction set that no machine of this ABI has; its constructor must not run. */
#define NAME "note_isa_high"
#define NOTE_ISA 9
#include "sentinel.h"
#include "base.h"
