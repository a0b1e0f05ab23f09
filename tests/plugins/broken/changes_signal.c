/* changes_signal: ignores a signal from its entry on. */
#define NAME "changes_signal"
#include <signal.h>
#define ENTRY_BODY return signal(SIGUSR1, SIG_IGN) == SIG_ERR ? 0 : &module;
#include "base.h"
