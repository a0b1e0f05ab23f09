/* wrong_name: its descriptor has another name than its file. */
#define NAME "wrong_name"
#define DESC_NAME "another_name"
#include "base.h"
