/* utf8: decoding, checking and streaming of UTF-8 (Unicode 15, table 3-7: no surrogates, no overlong forms).
 *
 * Nothing here allocates or keeps state outside the caller's structures; any thread may call. */
#ifndef TN_CORE_UTF8_H
#define TN_CORE_UTF8_H

#include "base.h"

enum {
  TN_UTF8_INVALID = 0, /* these bytes start no character */
  TN_UTF8_CUT = -1     /* a valid beginning, but the bytes end inside the character */
};

/* Length of the character at p[0, n), 1 to 4, with its code point in *cp (cp may be NULL); else one of the two above.
 * n must be at least 1. */
int tn_utf8_decode(const char *p, size_t n, uint32_t *cp);

/* Writes a code point (at most 0x10FFFF, no surrogate) and returns its length, 1 to 4. */
size_t tn_utf8_encode(uint32_t cp, char out[4]);

/* Bytes from p on that are whole, valid characters: n when the text is valid. */
size_t tn_utf8_valid(const char *p, size_t n);

/* Bytes that one U+FFFD stands for, where decode gave INVALID or CUT at p: the longest beginning of a character, at
 * least 1 (the practice of Unicode 15 section 3.9, which Python and web browsers follow). n must be at least 1. */
size_t tn_utf8_bad(const char *p, size_t n);

/* Turns a stream of arbitrary bytes into whole characters: a character is held back until its last byte is there.
 * Zero-initialised to begin. Holds at most 3 bytes. */
typedef struct tn_utf8_stream {
  uint8_t held[4]; /* [n] beginning of a character */
  uint8_t n;
} tn_utf8_stream;

/* Most bytes that feed can write for n bytes of input. */
#define TN_UTF8_FEED_MAX(n) (3 * ((size_t)(n) + 3))

/* Takes n bytes and writes the characters that are now whole to out, which has room for TN_UTF8_FEED_MAX(n) bytes.
 * Bytes that can no longer become a character are written as U+FFFD. Returns the bytes written. */
size_t tn_utf8_feed(tn_utf8_stream *s, const char *in, size_t n, char *out);

/* End of the stream: writes U+FFFD for what is still held, and clears it. Returns the bytes written, 0 or 3. */
size_t tn_utf8_flush(tn_utf8_stream *s, char out[3]);

#endif
