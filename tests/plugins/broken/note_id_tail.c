/* note_id_tail: the id in its note has bytes after its end. */
#define NAME "note_id_tail"
#define NOTE_ID "org.tenon.test.note_id_tail\0x"
#include "base.h"
