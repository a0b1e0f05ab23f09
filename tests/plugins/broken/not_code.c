/* not_code: a function of its descriptor is in its data. */
#define NAME "not_code"
#include "plugin_api.h"
static const union {
  const void *data;
  void (*code)(tn_inst *);
} nowhere;
#define DESTROY ((void (*)(tn_inst *))(uintptr_t)&nowhere)
#include "base.h"
