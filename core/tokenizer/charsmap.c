/* charsmap: SentencePiece's precompiled normaliser, NFKC and the like.
 *
 * Layout: a uint32 with the bytes of the double array, the array, then NUL-terminated replacements. A unit of the
 * array holds: label, bits 0-7 and 31; leaf, bit 8; offset, bits 10-30, shifted left by 8 where bit 9 is set. The unit
 * that a leaf's offset leads to holds the position of its replacement. Every index is checked where it is used. */
#include <stdlib.h>
#include <string.h>

#include "tok_int.h"

static const char key_map[] = "tokenizer.ggml.precompiled_charsmap";
enum { REPLACEMENT_MAX = 255 }; /* NFKC's longest takes 33 bytes */

static tn_status fill(tn_charsmap *c, const uint8_t *bytes, size_t n, tn_err *err)
{
  uint32_t array;
  memcpy(&array, bytes, sizeof array);
  size_t text_n = n - sizeof array - array;
  c->n_units = array / sizeof *c->unit;
  c->text_n = text_n;
  c->unit = tn_zalloc(c->n_units, sizeof *c->unit);
  c->text = tn_zalloc(text_n, 1);
  if (!c->unit || !c->text) return tn_fail(err, TN_E_NOMEM, "no memory for %s", key_map);
  memcpy(c->unit, bytes + sizeof array, c->n_units * sizeof *c->unit);
  memcpy(c->text, bytes + sizeof array + array, text_n);
  size_t run = 0;
  for (size_t i = 0; i < text_n; i++) {
    run = c->text[i] ? run + 1 : 0;
    if (run <= REPLACEMENT_MAX) continue;
    return tn_fail(err, TN_E_ARG, "%s: a replacement has over %d bytes", key_map, REPLACEMENT_MAX);
  }
  return run == 0 ? TN_OK : tn_fail(err, TN_E_ARG, "%s: its last replacement has no end", key_map);
}

tn_status tn_charsmap_read(tn_charsmap *c, const tn_gguf *g, tn_err *err)
{
  *c = (tn_charsmap){0};
  if (!tn_gguf_has(g, key_map)) return TN_OK;
  tn_gguf_arr a;
  bool bytewise = tn_gguf_array(g, key_map, &a) && (a.type == TN_GGUF_U8 || a.type == TN_GGUF_I8);
  if (!bytewise) return tn_fail(err, TN_E_ARG, "%s is no array of bytes", key_map);
  size_t n = (size_t)a.n;
  if (n == 0) return TN_OK;
  uint8_t *bytes = malloc(n);
  if (!bytes) return tn_fail(err, TN_E_NOMEM, "no memory for %s", key_map);
  for (size_t i = 0; i < n; i++) {
    double v = 0;
    tn_gguf_arr_f64(&a, i, &v);
    bytes[i] = (uint8_t)(int)v;
  }
  uint32_t array = 0;
  tn_status st;
  if (n > sizeof array) memcpy(&array, bytes, sizeof array);
  if (n <= sizeof array || array % sizeof array != 0 || array > n - sizeof array) {
    st = tn_fail(err, TN_E_ARG, "%s: its table has %u bytes, the array has %zu", key_map, array, n);
  } else {
    st = fill(c, bytes, n, err);
  }
  free(bytes);
  return st;
}

void tn_charsmap_clear(tn_charsmap *c)
{
  free(c->unit);
  free(c->text);
  *c = (tn_charsmap){0};
}

static uint32_t offset(uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); }

size_t tn_charsmap_match(const tn_charsmap *c, const char *p, size_t n, tn_str *out)
{
  if (c->n_units == 0) return 0;
  size_t longest = 0;
  uint32_t at = offset(c->unit[0]);
  for (size_t i = 0; i < n && p[i] != '\0'; i++) {
    at ^= (uint8_t)p[i];
    if (at >= c->n_units || (c->unit[at] & (1u << 31 | 0xFFu)) != (uint8_t)p[i]) break;
    bool leaf = (c->unit[at] >> 8) & 1;
    at ^= offset(c->unit[at]);
    if (!leaf || at >= c->n_units) continue;
    uint32_t text = c->unit[at] & ~(1u << 31);
    if (text >= c->text_n) continue;
    longest = i + 1;
    *out = (tn_str){c->text + text, strlen(c->text + text)};
  }
  return longest;
}
