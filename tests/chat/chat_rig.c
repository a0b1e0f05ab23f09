/* chat_rig: see chat_rig.h. */
#include "tests/chat/chat_rig.h"

#include <stdio.h>
#include <stdlib.h>

#define DATA TN_SOURCE_DIR "/tests/data/chat/"

json_t *chat_golden(const char *name)
{
  char path[512];
  snprintf(path, sizeof path, DATA "%s", name);
  return json_load_file(path, 0, NULL);
}

char *chat_source(const char *name, size_t *n)
{
  char path[512], *text = calloc(1, 1 << 16);
  snprintf(path, sizeof path, DATA "%s", name);
  FILE *f = fopen(path, "rb");
  *n = f && text ? fread(text, 1, (1 << 16) - 1, f) : 0;
  if (f) fclose(f);
  return text;
}

struct tm chat_now(void)
{
  return (struct tm){.tm_year = 124,
                     .tm_mon = 6,
                     .tm_mday = 26,
                     .tm_hour = 14,
                     .tm_min = 5,
                     .tm_sec = 9,
                     .tm_wday = 5,
                     .tm_yday = 207};
}

tn_status chat_render(const char *source, size_t n, const tn_chat_input *in, tn_chat_text *out, tn_err *err)
{
  tn_chat_template *t;
  *out = (tn_chat_text){0};
  tn_status st = tn_chat_template_compile(source, n, "test", &t, err);
  if (st == TN_OK) st = tn_chat_render(t, in, out, err);
  tn_chat_template_free(t);
  return st;
}
