/* bytes: the byte-level alphabet of GPT-2. Bytes that print stand for themselves as Latin-1 characters; the other 68,
 * in order, are the characters from U+0100 on. */
#include "tok_int.h"

static bool prints(uint32_t b) { return (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE; }

/* The n-th byte (from 0) that does not print is b: 0x00-0x20, 0x7F-0xA0, 0xAD. */
static uint32_t hidden_rank(uint32_t b) { return b <= 0x20 ? b : b <= 0xA0 ? b - 0x7F + 33 : 67; }

uint32_t tn_byte_char(uint8_t byte) { return prints(byte) ? byte : 0x100 + hidden_rank(byte); }

int tn_char_byte(uint32_t cp)
{
  if (cp < 0x100) return prints(cp) ? (int)cp : -1;
  uint32_t r = cp - 0x100;
  if (r > 67) return -1;
  return (int)(r <= 0x20 ? r : r < 67 ? r - 33 + 0x7F : 0xAD);
}
