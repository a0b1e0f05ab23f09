/* The byte-level alphabet: the characters that GPT-2's vocabulary file gives to bytes, and back. */
#include <criterion/criterion.h>

#include "open_vocab.h"

Test(bytes, known_characters)
{
  cr_expect(tn_byte_char('A') == 'A' && tn_byte_char('!') == '!' && tn_byte_char('~') == '~');
  cr_expect(tn_byte_char(0x00) == 0x100 && tn_byte_char(' ') == 0x120 && tn_byte_char('\n') == 0x10A);
  cr_expect(tn_byte_char(0x7F) == 0x121 && tn_byte_char(0xA0) == 0x142 && tn_byte_char(0xAD) == 0x143);
  cr_expect(tn_byte_char(0xA1) == 0xA1 && tn_byte_char(0xAC) == 0xAC && tn_byte_char(0xFF) == 0xFF);
}

Test(bytes, one_to_one)
{
  for (int b = 0; b < 256; b++) cr_expect(tn_char_byte(tn_byte_char((uint8_t)b)) == b, "byte %d", b);
  int hits = 0;
  for (uint32_t cp = 0; cp < 0x1000; cp++) hits += tn_char_byte(cp) >= 0;
  cr_expect(hits == 256 && tn_char_byte(0x144) == -1 && tn_char_byte(' ') == -1 && tn_char_byte(0x10FFFF) == -1);
}

Test(bytes, every_byte_is_a_token_of_gpt2)
{
  vocab v = vocab_open("gpt-2.gguf");
  for (int b = 0; b < 256; b++) {
    char got = 0;
    int32_t id = v.t->byte_id[b];
    cr_expect(id >= 0 && id < 256 && tn_token_piece(v.t, id, 0, &got, 1) == 1 && (uint8_t)got == b, "byte %d", b);
  }
  vocab_close(&v);
}
