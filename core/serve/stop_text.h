/* stop_text: the text of one answer on its way to the client. Bytes of tokens become whole characters; what could yet
 * turn out to be the beginning of a stop string is held back, nothing more.
 *
 * Zero-initialised to begin, with stops set; tn_stop_text_free at the end. Thread rule: one thread. */
#ifndef TN_CORE_SERVE_STOP_TEXT_H
#define TN_CORE_SERVE_STOP_TEXT_H

#include "utf8.h"

#define TN_MAX_STOPS 16u
#define TN_MAX_STOP_BYTES 256u

typedef struct tn_stop_text {
  const tn_str *stops; /* [n_stops] none empty, at most TN_MAX_STOP_BYTES; borrowed */
  uint32_t n_stops;
  bool include; /* the stop string is part of the text */
  bool stopped; /* a stop string was found; the text ends with cut */
  const tn_str *which;
  tn_utf8_stream utf8;
  char *text; /* [n] all whole characters so far, cut at the stop string */
  size_t n, cap, sent;
} tn_stop_text;

/* Takes the bytes of one token. false: no memory; the text is then unchanged. */
bool tn_stop_text_feed(tn_stop_text *t, const char *bytes, size_t n);

/* No more bytes will come: half a character becomes U+FFFD, nothing is held back any longer. false: no memory. */
bool tn_stop_text_end(tn_stop_text *t, bool *found);

/* What can be sent now and was not yet; borrowed until the next call. Marks it as sent. */
tn_str tn_stop_text_take(tn_stop_text *t, bool last);

/* Bytes that can be sent in all. */
size_t tn_stop_text_safe(const tn_stop_text *t, bool last);

void tn_stop_text_free(tn_stop_text *t);

#endif
