/* not_constant: its tables can be written. */
#define NAME "not_constant"
#define TABLE static
#define ENTRY_BODY    \
  module.name = NAME; \
  return &module;
#include "base.h"
