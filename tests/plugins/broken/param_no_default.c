/* param_no_default: a parameter is not required and has no default. */
#define NAME "param_no_default"
#include "plugin_api.h"
static const tn_param p0 = {
    sizeof(tn_param), TN_T_I64, 0, 0, "window", "tokens to keep", "tokens", NULL, NULL, 1, 64, 0, 0};
static const tn_param *const params[] = {&p0, NULL};
#define PARAMS params
#include "base.h"
