/* decode: token ids to text. */
#include <stdlib.h>
#include <string.h>

#include "../utf8.h"
#include "tok_int.h"

/* Where a piece's bytes go: as many as fit, and the count of all. */
struct sink {
  char *buf;
  size_t cap, n;
};

static void put(struct sink *s, const char *p, size_t n)
{
  if (s->n < s->cap) memcpy(s->buf + s->n, p, n < s->cap - s->n ? n : s->cap - s->n);
  s->n += n;
}

/* Byte-level spelling: every character of the alphabet is a byte, any other is itself. */
static void put_byte_level(struct sink *s, tn_str text)
{
  for (size_t i = 0; i < text.n;) {
    uint32_t cp = 0;
    int len = tn_utf8_decode(text.p + i, text.n - i, &cp);
    int byte = len > 0 ? tn_char_byte(cp) : -1;
    char one = (char)byte;
    if (len <= 0) len = 1;
    if (byte >= 0) {
      put(s, &one, 1);
    } else {
      put(s, text.p + i, (size_t)len);
    }
    i += (size_t)len;
  }
}

/* SentencePiece spelling: U+2581 is a space. */
static void put_marked(struct sink *s, tn_str text)
{
  for (size_t i = 0, done = 0; i < text.n;) {
    if (i + TN_SPACE_MARK_N <= text.n && memcmp(text.p + i, TN_SPACE_MARK, TN_SPACE_MARK_N) == 0) {
      put(s, " ", 1);
      i += TN_SPACE_MARK_N;
      done = i;
      continue;
    }
    i++;
    bool end = i == text.n || text.p[i] == TN_SPACE_MARK[0];
    if (!end) continue;
    put(s, text.p + done, i - done);
    done = i;
  }
}

/* "<0xE2>" to its byte; false for another text. */
static bool hex_byte(tn_str text, char *out)
{
  if (text.n != 6 || memcmp(text.p, "<0x", 3) != 0 || text.p[5] != '>') return false;
  unsigned v = 0;
  for (size_t i = 3; i < 5; i++) {
    char c = text.p[i];
    unsigned digit;
    if (c >= '0' && c <= '9')
      digit = (unsigned)(c - '0');
    else if (c >= 'A' && c <= 'F')
      digit = (unsigned)(c - 'A') + 10;
    else
      return false;
    v = v * 16 + digit;
  }
  *out = (char)v;
  return true;
}

size_t tn_token_piece(const tn_tokenizer *t, int32_t id, uint32_t flags, char *buf, size_t cap)
{
  if (id < 0 || id >= t->n_vocab) return 0;
  struct sink s = {.buf = buf, .cap = cap};
  tn_str text = t->text[id];
  char byte;
  switch (t->type[id]) {
    case TN_TOKEN_CONTROL:
    case TN_TOKEN_UNKNOWN:
      if (flags & TN_PIECE_SPECIAL) put(&s, text.p, text.n);
      break;
    case TN_TOKEN_USER_DEFINED: put(&s, text.p, text.n); break;
    case TN_TOKEN_BYTE:
      if (hex_byte(text, &byte)) {
        put(&s, &byte, 1);
        break;
      } /* FALLTHROUGH */
    default:
      if (t->model == TN_TOK_BPE)
        put_byte_level(&s, text);
      else
        put_marked(&s, text);
      break;
  }
  return s.n;
}

size_t tn_token_piece_max(const tn_tokenizer *t) { return t->max_text; }

/* Replaces every from in text[0, n) by to, which is not longer. Returns the new length. */
static size_t replace(char *text, size_t n, const char *from, const char *to)
{
  size_t f = strlen(from), k = strlen(to), o = 0;
  for (size_t i = 0; i < n;) {
    if (n - i >= f && memcmp(text + i, from, f) == 0) {
      memcpy(text + o, to, k);
      o += k;
      i += f;
    } else {
      text[o++] = text[i++];
    }
  }
  return o;
}

/* The clean-up of tokenization spaces that some models' tokenizers ask for. */
static size_t clean_spaces(char *text, size_t n)
{
  static const char *const pairs[][2] = {{" .", "."},     {" ?", "?"},     {" !", "!"},   {" ,", ","},
                                         {" ' ", "'"},    {" n't", "n't"}, {" 'm", "'m"}, {" 's", "'s"},
                                         {" 've", "'ve"}, {" 're", "'re"}};
  for (size_t i = 0; i < TN_ARRAY_LEN(pairs); i++) n = replace(text, n, pairs[i][0], pairs[i][1]);
  return n;
}

static bool is_special(const tn_tokenizer *t, int32_t id)
{
  uint8_t type = t->type[id];
  return type == TN_TOKEN_CONTROL || type == TN_TOKEN_USER_DEFINED || type == TN_TOKEN_UNKNOWN;
}

tn_status tn_detokenize(const tn_tokenizer *t, const int32_t *ids, size_t n_ids, uint32_t flags, char **text, size_t *n,
                        tn_err *err)
{
  *text = NULL;
  *n = 0;
  size_t bytes = 1;
  for (size_t i = 0; i < n_ids; i++) {
    if (ids[i] < 0 || ids[i] >= t->n_vocab) {
      return tn_fail(err, TN_E_ARG, "token %zu to detokenize is %d, the vocabulary has %d", i, ids[i], t->n_vocab);
    }
    if (!tn_add_size(bytes, t->text[ids[i]].n, &bytes)) return tn_fail(err, TN_E_NOMEM, "no memory to detokenize");
  }
  char *out = malloc(bytes);
  if (!out) return tn_fail(err, TN_E_NOMEM, "no memory to detokenize %zu tokens", n_ids);
  size_t o = 0;
  bool prefixed = t->space_prefix; /* tokenize put a space before the next word */
  for (size_t i = 0; i < n_ids; i++) {
    size_t len = tn_token_piece(t, ids[i], flags, out + o, bytes - o);
    bool special = is_special(t, ids[i]);
    if (prefixed && !special && len > 0 && out[o] == ' ') memmove(out + o, out + o + 1, --len);
    prefixed = t->space_prefix && special;
    o += len;
  }
  if ((flags & TN_PIECE_CLEAN_SPACES) && t->pre && t->pre->clean_spaces) o = clean_spaces(out, o);
  out[o] = '\0';
  *text = out;
  *n = o;
  return TN_OK;
}
