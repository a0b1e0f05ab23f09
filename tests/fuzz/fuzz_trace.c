/* fuzz_trace: bytes as a trace of requests. What is taken is in order and in range; what is refused, with a sentence. */
#include <stdlib.h>
#include <string.h>

#include "measure/trace.h"
#include "utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  tn_trace t;
  tn_err err = tn_err_init();
  tn_status st = tn_trace_parse("a.csv", (const char *)data, size, 0, &t, &err);
  if (st != TN_OK) {
    bool said = err.msg[0] && tn_utf8_valid(err.msg, strlen(err.msg)) == strlen(err.msg);
    if (!said || t.n > 0 || t.r) abort();
    return 0;
  }
  if (t.n == 0 || t.r[0].at_ns != 0) abort();
  for (size_t i = 0; i < t.n; i++) {
    const tn_trace_request *r = &t.r[i];
    if (r->n_prompt < 0 || r->n_prompt > TN_TRACE_MAX_TOKENS || r->n_new < 0 || r->n_new > TN_TRACE_MAX_TOKENS) abort();
    if (r->n_prompt > t.longest_prompt || r->n_new > t.longest_new) abort();
    if (i > 0 && r->at_ns < t.r[i - 1].at_ns) abort();
    if (!t.timed && (!r->text || !*r->text)) abort();
  }
  tn_trace_free(&t);
  return 0;
}
