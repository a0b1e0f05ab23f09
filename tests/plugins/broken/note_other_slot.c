/* note_other_slot: its note is for another slot than its descriptor. */
#define NAME "note_other_slot"
#define NOTE_SLOT TN_SLOT_MEMORY
#include "base.h"
