/* client_stream: a streamed answer of OpenAI's API, event by event. Bytes come in any pieces. No I/O.
 *
 * An event is a line "data: {...}"; "data: [DONE]" ends the stream; other lines are skipped. Thread rule: one at a time. */
#ifndef TN_CORE_MEASURE_CLIENT_STREAM_H
#define TN_CORE_MEASURE_CLIENT_STREAM_H

#include "measure/client.h"

#define TN_STREAM_MAX_LINE ((size_t)16 << 20)

typedef struct tn_stream {
  tn_client_answer *a; /* text, chunks, usage and finish go here; err where an event says so or cannot be read */
  char *line;          /* [cap] what there is of the next line */
  size_t n, cap, cap_text;
  uint32_t cap_chunks;
  uint64_t n_events;
  bool done; /* "[DONE]" was there */
} tn_stream;

/* Takes n bytes that were there at now_ns. TN_E_NOMEM; TN_E_IO for an event that is no JSON or a line over
 * TN_STREAM_MAX_LINE, and then a->err says so; an event with an error is not a failure of this call. */
tn_status tn_stream_feed(tn_stream *s, const char *p, size_t n, uint64_t now_ns);
void tn_stream_release(tn_stream *s); /* not what belongs to the answer */

/* The message of {"error": {"message": ...}} and its relatives; NULL: j holds none. Borrowed from j. */
const char *tn_stream_message(const json_t *j);

#endif
