/* note_other_id: its note has another id than its descriptor. */
#define NAME "note_other_id"
#define NOTE_ID "org.tenon.test.other"
#include "base.h"
