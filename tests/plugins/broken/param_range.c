/* param_range: the range of a parameter is empty. */
#define NAME "param_range"
#include "plugin_api.h"
static const tn_param p0 = {
    sizeof(tn_param), TN_T_I64, 0, 0, "window", "tokens to keep", "tokens", "8", NULL, 64, 1, 0, 0};
static const tn_param *const params[] = {&p0, NULL};
#define PARAMS params
#include "base.h"
