/* leaks_fd: leaves a file open in its entry. */
#define NAME "leaks_fd"
#include <fcntl.h>
#define ENTRY_BODY return open("/dev/null", O_RDONLY) < 0 ? 0 : &module;
#include "base.h"
