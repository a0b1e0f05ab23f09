/* token_twice: provides one token twice. */
#define NAME "token_twice"
static const char *const provides[] = {"kv.history/1", "kv.history/1", 0};
#define PROVIDES provides
#include "base.h"
