/* note_slot_unknown: its note is for a slot that there is not. */
#define NAME "note_slot_unknown"
#define NOTE_SLOT 77
#include "base.h"
