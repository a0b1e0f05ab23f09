/* sha256: vectors of FIPS 180-4, and the same digest however the bytes are dealt out. */
#include "sha256.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

/* Digest of n bytes given in pieces of step. */
static void digest(const void *p, size_t n, size_t step, char hex[65])
{
  tn_sha256 h;
  uint8_t out[32];
  tn_sha256_init(&h);
  for (size_t at = 0; at < n; at += step) {
    tn_sha256_update(&h, (const uint8_t *)p + at, n - at < step ? n - at : step);
  }
  tn_sha256_update(&h, NULL, 0);
  tn_sha256_final(&h, out);
  tn_sha256_hex(out, hex);
}

Test(sha256, known_digests)
{
  static const char *const cases[][2] = {
      {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
      {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
      {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
       "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
      {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrst"
       "nopqrstu",
       "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char hex[65];
    digest(cases[i][0], strlen(cases[i][0]), 1000, hex);
    cr_expect(eq(str, hex, (char *)cases[i][1]));
  }
}

Test(sha256, a_million_letters)
{
  static uint8_t letters[1000000];
  char hex[65];
  memset(letters, 'a', sizeof letters);
  digest(letters, sizeof letters, 1013, hex);
  cr_expect(eq(str, hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"));
}

/* Around the ends of a block the padding takes one block or two. */
Test(sha256, pieces_make_no_difference)
{
  uint8_t bytes[200];
  for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)(i * 7);
  for (size_t n = 0; n <= sizeof bytes; n++) {
    char whole[65], pieces[65];
    digest(bytes, n, 200, whole);
    for (size_t step = 1; step <= 67; step += 11) {
      digest(bytes, n, step, pieces);
      cr_assert(eq(str, pieces, whole), "%zu bytes by %zu", n, step);
    }
  }
}
