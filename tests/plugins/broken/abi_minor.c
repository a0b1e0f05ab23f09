/* abi_minor: built for another minor of the ABI. */
#define NAME "abi_minor"
#define NOTE_MINOR 999
#define NOTE_MIN_MINOR 999
#include "base.h"
