/* fuzz_request: bytes as the body of a generation request. The first byte chooses the route; what is taken is within its
 * limits, what is refused says why, and the stop string that is complete first cuts any text. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "serve/request.h"
#include "utf8.h"

static void need(bool holds)
{
  if (!holds) abort();
}

static void check_taken(const tn_gen *g)
{
  tn_err err = tn_err_init();
  need(g->n >= 1 && g->n <= TN_GEN_MAX_CHOICES && g->top <= TN_GEN_MAX_TOP && g->prompt_top <= TN_GEN_MAX_TOP);
  need(g->n_stop <= TN_MAX_STOPS && g->n_stop_ids <= TN_GEN_MAX_STOP_IDS && g->max_new >= -1);
  need((g->prompt != NULL) == (g->api == TN_API_COMPLETION) && (g->messages != NULL) == (g->api == TN_API_CHAT));
  for (uint32_t i = 0; i < g->n_stop; i++) need(g->stop[i].n > 0 && g->stop[i].n <= TN_MAX_STOP_BYTES);
  need(tn_sampling_check(&g->sampling, INT32_MAX, &err) == TN_OK);
}

/* The text, fed in small pieces, ends where the stop string that is complete first begins (or before it, where one that
 * began earlier is complete in the same piece), and nothing behind was given out. */
static void check_stops(const tn_gen *g, const char *text, size_t n)
{
  tn_stop_text t = {.stops = g->stop, .n_stops = g->n_stop};
  size_t given = 0, first = SIZE_MAX, end = SIZE_MAX, begin = SIZE_MAX; /* of the one that ends first */
  bool found;
  for (size_t i = 0; i < n && !t.stopped; i += 3) {
    need(tn_stop_text_feed(&t, text + i, n - i < 3 ? n - i : 3));
    given += tn_stop_text_take(&t, false).n;
  }
  need(tn_stop_text_end(&t, &found));
  given += tn_stop_text_take(&t, true).n;
  need(given == t.n && (n == 0 || tn_utf8_valid(t.text ? t.text : "", t.n) == t.n));
  for (uint32_t i = 0; i < g->n_stop; i++) {
    const char *at = tn_utf8_valid(text, n) == n ? memmem(text, n, g->stop[i].p, g->stop[i].n) : NULL;
    if (!at) continue;
    const size_t from = (size_t)(at - text), to = from + g->stop[i].n;
    if (from < first) first = from;
    if (to < end || (to == end && from < begin)) end = to, begin = from;
  }
  if (tn_utf8_valid(text, n) == n) need(found == (first != SIZE_MAX) && (!found || (t.n <= begin && t.n >= first)));
  tn_stop_text_free(&t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  if (size < 1) return 0;
  uint32_t api = data[0] & 1 ? TN_API_CHAT : TN_API_COMPLETION;
  tn_gen g;
  tn_fault f;
  const char *body = (const char *)data + 1;
  if (tn_gen_parse(api, body, size - 1, &g, &f)) {
    check_taken(&g);
    check_stops(&g, body, size - 1);
    tn_gen_free(&g);
  } else {
    char *text = tn_fault_text(&f);
    need(f.status >= 400 && f.msg[0] && text && tn_utf8_valid(text, strlen(text)) == strlen(text));
    free(text);
  }
  return 0;
}
