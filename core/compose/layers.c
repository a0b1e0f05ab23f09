/* layers: attention.layers, "0-3:a, 4-29:b"; a range may be one layer, "5:a", or go on to the last, "6-:a". */
#include <stdio.h>
#include <string.h>

#include "compose/compose_int.h"
#include "config/param.h"
#include "config/section.h"

static tn_str trim(tn_str s)
{
  while (s.n && (s.p[0] == ' ' || s.p[0] == '\t')) s.p++, s.n--;
  while (s.n && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t')) s.n--;
  return s;
}

/* A layer's number; false when it is none. */
static bool layer(tn_str s, uint32_t *out)
{
  int64_t x;
  s = trim(s);
  if (!s.n || s.p[0] == '+' || !tn_text_i64(s.p, s.n, &x) || x < 0 || x >= TN_MAX_LAYERS) return false;
  *out = (uint32_t)x;
  return true;
}

/* One "range:name". */
static bool read_range(tn_str s, tn_layer_range *out)
{
  const char *colon = memchr(s.p, ':', s.n);
  if (!colon) return false;
  tn_str range = trim((tn_str){s.p, (size_t)(colon - s.p)});
  out->name = trim((tn_str){colon + 1, s.n - (size_t)(colon - s.p) - 1});
  if (!tn_plugin_name_ok(out->name)) return false;
  const char *dash = memchr(range.p, '-', range.n);
  uint32_t last;
  if (!layer((tn_str){range.p, dash ? (size_t)(dash - range.p) : range.n}, &out->layer0)) return false;
  out->layer1 = out->layer0 + 1;
  if (!dash) return true;
  tn_str to = trim((tn_str){dash + 1, range.n - (size_t)(dash - range.p) - 1});
  out->layer1 = TN_LAYER_END;
  if (to.n == 0) return true;
  if (!layer(to, &last) || last < out->layer0) return false;
  out->layer1 = last + 1;
  return true;
}

/* Joins r to the last range when it goes on with the same plugin; else appends it. */
static void append(tn_layer_range *out, uint32_t *n, tn_layer_range r)
{
  tn_layer_range *last = *n ? &out[*n - 1] : NULL;
  if (last && last->name.n == r.name.n && !memcmp(last->name.p, r.name.p, r.name.n))
    last->layer1 = r.layer1;
  else
    out[(*n)++] = r;
}

static tn_status check_end(const tn_layer_range *out, uint32_t n, uint32_t n_layers, tn_err *err)
{
  uint32_t end = n ? out[n - 1].layer1 : 0;
  if (n == 0) return tn_fail(err, TN_E_ARG, "names no layers");
  if (!n_layers || end == n_layers || (end == TN_LAYER_END && out[n - 1].layer0 < n_layers)) return TN_OK;
  if (end == TN_LAYER_END)
    return tn_fail(err, TN_E_ARG, "layer %u: the model has %u layers, 0 to %u", out[n - 1].layer0, n_layers,
                   n_layers - 1);
  return tn_fail(err, TN_E_ARG, "the ranges end with layer %u, the model's last layer is %u", end - 1, n_layers - 1);
}

tn_status tn_layers_parse(const char *text, uint32_t n_layers, tn_layer_range *out, uint32_t *n, tn_err *err)
{
  *n = 0;
  uint32_t next = 0;
  for (const char *at = text; *at;) {
    size_t len = strcspn(at, ",");
    tn_str s = trim((tn_str){at, len});
    tn_layer_range r;
    if (!read_range(s, &r))
      return tn_fail(err, TN_E_ARG, "'%.*s' is no range of layers with a plugin, such as 0-3:name", (int)s.n, s.p);
    if (next == TN_LAYER_END)
      return tn_fail(err, TN_E_ARG, "'%.*s' follows a range that goes on to the last layer", (int)s.n, s.p);
    if (r.layer0 != next)
      return tn_fail(err, TN_E_ARG, "'%.*s' begins with layer %u, expected %u: ranges ascend without gaps", (int)s.n,
                     s.p, r.layer0, next);
    if (*n == TN_MAX_LAYER_PARTS) return tn_fail(err, TN_E_ARG, "over %d ranges", TN_MAX_LAYER_PARTS);
    append(out, n, r);
    next = r.layer1;
    at += len;
    if (*at == ',' && !at[strspn(at + 1, " \t") + 1]) return tn_fail(err, TN_E_ARG, "nothing follows the last comma");
    if (*at == ',') at++;
  }
  tn_status st = check_end(out, *n, n_layers, err);
  if (st) return st;
  if (out[*n - 1].layer1 == n_layers) out[*n - 1].layer1 = TN_LAYER_END;
  return TN_OK;
}
