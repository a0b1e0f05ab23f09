/* entry_allocates: wants memory of the host in its entry. */
#define NAME "entry_allocates"
#define ENTRY_BODY return host->alloc(host->ctx, 8, 8) ? 0 : &module;
#include "base.h"
