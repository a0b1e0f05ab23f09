/* not_utf8: its summary is not UTF-8. */
#define NAME "not_utf8"
#define SUMMARY "caf\xe9"
#include "base.h"
