/* abi_major: built for another major of the ABI; its constructor must not run. */
#define NAME "abi_major"
#define NOTE_MAJOR 9
#include "sentinel.h"
#include "base.h"
