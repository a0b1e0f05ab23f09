/* sha256: FIPS 180-4 SHA-256, for fingerprints and checksums. No allocation; one state serves one thread. */
#ifndef TN_CORE_SHA256_H
#define TN_CORE_SHA256_H

#include <stddef.h>
#include <stdint.h>

typedef struct tn_sha256 {
  uint32_t h[8];
  uint64_t n;      /* bytes taken so far */
  uint8_t buf[64]; /* the last n % 64 of them */
} tn_sha256;

void tn_sha256_init(tn_sha256 *s);

/* p may be NULL when n is 0. */
void tn_sha256_update(tn_sha256 *s, const void *p, size_t n);

/* The digest. The state is spent; init begins a new one. */
void tn_sha256_final(tn_sha256 *s, uint8_t out[32]);

/* Digest as 64 lower-case hex digits and a NUL. */
void tn_sha256_hex(const uint8_t digest[32], char out[65]);

#endif
