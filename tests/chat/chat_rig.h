/* chat_rig: templates rendered in tests. */
#ifndef TN_TESTS_CHAT_RIG_H
#define TN_TESTS_CHAT_RIG_H

#include <stdbool.h>
#include <stddef.h>

#include "chat/template.h"

/* A JSON file of tests/data/chat. The caller's. */
json_t *chat_golden(const char *name);

/* The bytes of a file of tests/data/chat, NUL-terminated. free(). */
char *chat_source(const char *name, size_t *n);

/* 26 July 2024, 14:05:09, as contrib/make-golden-templates has it. */
struct tm chat_now(void);

/* Compiles and renders. The text is the caller's (tn_chat_text_clear). */
tn_status chat_render(const char *source, size_t n, const tn_chat_input *in, tn_chat_text *out, tn_err *err);

#endif
