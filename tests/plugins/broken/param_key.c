/* param_key: the key of a parameter has a capital. */
#define NAME "param_key"
#include "plugin_api.h"
static const tn_param p0 = {
    sizeof(tn_param), TN_T_I64, 0, 0, "Window", "tokens to keep", "tokens", "8", NULL, 1, 64, 0, 0};
static const tn_param *const params[] = {&p0, NULL};
#define PARAMS params
#include "base.h"
