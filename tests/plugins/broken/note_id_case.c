/* note_id_case: the id in its note is not lower case. */
#define NAME "note_id_case"
#define ID "Org.Tenon.Test"
#include "base.h"
