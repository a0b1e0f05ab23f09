/* two_lines: its summary has two lines. */
#define NAME "two_lines"
#define SUMMARY "one\ntwo"
#include "base.h"
