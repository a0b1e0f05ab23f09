/* param_runtime: a parameter may change at run time and there is no set. */
#define NAME "param_runtime"
#include "plugin_api.h"
static const tn_param p0 = {
    sizeof(tn_param), TN_T_I64, TN_P_RUNTIME, 0, "window", "tokens to keep", "tokens", "8", NULL, 1, 64, 0, 0};
static const tn_param *const params[] = {&p0, NULL};
#define PARAMS params
#include "base.h"
