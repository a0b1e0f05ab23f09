/* needs_and_conflicts: needs what it conflicts with. */
#define NAME "needs_and_conflicts"
static const char *const tokens[] = {"attn.scores/1", 0};
#define NEEDS tokens
#define CONFLICTS tokens
#include "base.h"
