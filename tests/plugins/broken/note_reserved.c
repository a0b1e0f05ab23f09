/* note_reserved: a reserved word of its note is set. */
#define NAME "note_reserved"
#define NOTE_RESERVED 5
#include "base.h"
