/* id_case: its id is not lower case; its note has the right one. */
#define NAME "id_case"
#define DESC_ID "org.tenon.test.Id"
#include "base.h"
