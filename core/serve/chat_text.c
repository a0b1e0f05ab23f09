/* chat_text: a conversation as the text that the model is given. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serve/server_int.h"

static void put_content(FILE *f, const json_t *c)
{
  size_t i;
  json_t *part;
  if (json_is_string(c)) fputs(json_string_value(c), f);
  json_array_foreach((json_t *)(uintptr_t)c, i, part) fputs(json_string_value(json_object_get(part, "text")), f);
}

char *tn_chat_text(const tn_server *s, const tn_gen *g, tn_fault *f)
{
  char *text = NULL;
  size_t n, i;
  json_t *m;
  (void)s;
  FILE *out = open_memstream(&text, &n);
  if (!out) {
    tn_fault_status(f, 503, "no memory for the conversation");
    return NULL;
  }
  json_array_foreach((json_t *)(uintptr_t)g->messages, i, m)
  {
    fprintf(out, "<|im_start|>%s\n", json_string_value(json_object_get(m, "role")));
    put_content(out, json_object_get(m, "content"));
    fputs("<|im_end|>\n", out);
  }
  if (!g->no_generation_prompt) fputs("<|im_start|>assistant\n", out);
  if (fclose(out) == 0) return text;
  free(text);
  tn_fault_status(f, 503, "no memory for the conversation");
  return NULL;
}
