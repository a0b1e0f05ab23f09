/* entry_null: its entry returns NULL and gives no reason. */
#define NAME "entry_null"
#define NO_MODULE
#define ENTRY_BODY return (void)DESC, NULL;
#include "base.h"
