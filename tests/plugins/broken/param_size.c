/* param_size: the size of a parameter is not that of this ABI. */
#define NAME "param_size"
#include "plugin_api.h"
static const tn_param p0 = {8, TN_T_I64, 0, 0, "window", "tokens to keep", "tokens", "8", NULL, 1, 64, 0, 0};
static const tn_param *const params[] = {&p0, NULL};
#define PARAMS params
#include "base.h"
