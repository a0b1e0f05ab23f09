/* param_twice: has two parameters of one key. */
#define NAME "param_twice"
#include "plugin_api.h"
static const tn_param p0 = {
    sizeof(tn_param), TN_T_I64, 0, 0, "window", "tokens to keep", "tokens", "8", NULL, 1, 64, 0, 0};
static const tn_param *const params[] = {&p0, &p0, NULL};
#define PARAMS params
#include "base.h"
