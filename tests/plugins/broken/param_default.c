/* param_default: the default of a parameter is outside its range. */
#define NAME "param_default"
#include "plugin_api.h"
static const tn_param p0 = {
    sizeof(tn_param), TN_T_I64, 0, 0, "window", "tokens to keep", "tokens", "65", NULL, 1, 64, 0, 0};
static const tn_param *const params[] = {&p0, NULL};
#define PARAMS params
#include "base.h"
