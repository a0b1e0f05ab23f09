/* another_answer: says another version of itself every time. */
#define NAME "another_answer"
#define TABLE static
#define ENTRY_BODY                                               \
  module.version = module.version[0] == '1' ? "2.0.0" : "1.0.0"; \
  return &module;
#include "base.h"
