/* abi_floor: wants a host newer than this one. */
#define NAME "abi_floor"
#define NOTE_MIN_MINOR 7
#include "base.h"
