/* bad_token: provides a token without a version. */
#define NAME "bad_token"
static const char *const provides[] = {"kv.history", 0};
#define PROVIDES provides
#include "base.h"
