/* param_enum: an enumeration has no choices. */
#define NAME "param_enum"
#include "plugin_api.h"
static const tn_param p0 = {
    sizeof(tn_param), TN_T_ENUM, 0, 0, "window", "tokens to keep", "tokens", "8", NULL, 1, 64, 0, 0};
static const tn_param *const params[] = {&p0, NULL};
#define PARAMS params
#include "base.h"
