/* param_type: a parameter has a type that there is not. */
#define NAME "param_type"
#include "plugin_api.h"
static const tn_param p0 = {sizeof(tn_param), 99, 0, 0, "window", "tokens to keep", "tokens", "8", NULL, 1, 64, 0, 0};
static const tn_param *const params[] = {&p0, NULL};
#define PARAMS params
#include "base.h"
