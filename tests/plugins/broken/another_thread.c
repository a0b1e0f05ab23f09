/* another_thread: gives threads another answer. */
#define NAME "another_thread"
#include <unistd.h>
#include "plugin_api.h"
static const tn_module other = {.struct_size = sizeof(tn_module), .name = "other"};
#define ENTRY_BODY return getpid() == gettid() ? &module : &other;
#include "base.h"
