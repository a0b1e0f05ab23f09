/* answer_vector: the answers of the embeddings route. See answer.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "serve/answer.h"
#include "serve/json_add.h"

static json_t *base64_of(const uint8_t *p, size_t n)
{
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  size_t len = (n + 2) / 3 * 4, at = 0;
  char *text = malloc(len + 1);
  if (!text) return NULL;
  for (size_t i = 0; i < n; i += 3) {
    uint32_t b = (uint32_t)p[i] << 16 | (i + 1 < n ? (uint32_t)p[i + 1] << 8 : 0) | (i + 2 < n ? p[i + 2] : 0u);
    text[at++] = digits[b >> 18];
    text[at++] = digits[b >> 12 & 63];
    text[at++] = i + 1 < n ? digits[b >> 6 & 63] : '=';
    text[at++] = i + 2 < n ? digits[b & 63] : '=';
  }
  json_t *j = json_stringn_nocheck(text, len);
  free(text);
  return j;
}

json_t *tn_answer_vector(float *row, size_t n, bool base64)
{
  double sum = 0;
  for (size_t i = 0; i < n; i++) sum += (double)row[i] * (double)row[i];
  double scale = sum > 0 ? 1 / sqrt(sum) : 0;
  for (size_t i = 0; i < n; i++) row[i] = (float)((double)row[i] * scale);
  if (base64) return base64_of((const uint8_t *)row, n * sizeof *row);
  json_t *list = json_array();
  for (size_t i = 0; i < n; i++) tn_json_append(&list, json_real((double)row[i]));
  return list;
}

json_t *tn_answer_embeddings(const tn_job *j)
{
  json_t *data = json_array();
  json_int_t n = 0;
  for (uint32_t i = 0; i < j->n_choices; i++)
    tn_json_append(
        &data, json_pack("{s:s, s:i, s:O}", "object", "embedding", "index", (int)i, "embedding", j->choices[i].vector));
  for (uint32_t i = 0; i < j->n_prompts; i++) n += (json_int_t)j->prompts[i].n;
  json_t *all = json_pack("{s:s, s:s, s:{s:I, s:I}}", "object", "list", "model", j->model, "usage", "prompt_tokens", n,
                          "total_tokens", n);
  tn_json_set(&all, "data", data);
  return all;
}
