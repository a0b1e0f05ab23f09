/* pretok: compiles and applies the steps of pretok_table.c, with PCRE2 (UTF and Unicode properties on). */
#include "pretok.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#include "../utf8.h"

/* A pattern that backtracks beyond this gives up; honest text needs a step or two a character. */
enum { MATCH_LIMIT = 50 * 1000 * 1000, HEAP_LIMIT_KIB = 256 * 1024 };

/* \s means White_Space to the libraries that vocabularies were made with. PCRE2's \s adds U+180E, which Mongolian text
 * uses inside words, so where PCRE2 knows the property by name the patterns say it. */
#if PCRE2_MAJOR > 10 || PCRE2_MINOR >= 40
static const char space_class[] = "\\p{wspace}", not_space_class[] = "\\P{wspace}";
#else
static const char space_class[] = "\\s", not_space_class[] = "\\S";
#endif

/* The pattern with \s and \S spelled as above. Owned by the caller, NULL without memory. */
static char *spell_out(const char *pattern)
{
  size_t n = strlen(pattern), longest = sizeof space_class - 1, o = 0;
  char *out = malloc(n * longest + 1);
  if (!out) return NULL;
  for (size_t i = 0; i < n; i++) {
    const char *put = NULL;
    if (pattern[i] == '\\' && pattern[i + 1] == 's') put = space_class;
    if (pattern[i] == '\\' && pattern[i + 1] == 'S') put = not_space_class;
    if (put) {
      memcpy(out + o, put, longest);
      o += longest;
      i++;
    } else {
      out[o++] = pattern[i];
      if (pattern[i] == '\\') out[o++] = pattern[++i];
    }
  }
  out[o] = '\0';
  return out;
}

static tn_status compile_step(struct tn_pretok_step *step, const char *pattern, tn_err *err)
{
  step->threes = pattern[0] == TN_PRETOK_THREES;
  char *spelled = spell_out(pattern + step->threes);
  if (!spelled) return tn_fail(err, TN_E_NOMEM, "no memory for a pre-tokenizer pattern");
  int code;
  PCRE2_SIZE at;
  pcre2_code *re = pcre2_compile((PCRE2_SPTR)spelled, PCRE2_ZERO_TERMINATED,
                                 PCRE2_UTF | PCRE2_UCP | PCRE2_NO_AUTO_CAPTURE, &code, &at, NULL);
  free(spelled);
  if (!re) {
    char why[120];
    if (code == PCRE2_ERROR_HEAP_FAILED) return tn_fail(err, TN_E_NOMEM, "no memory for a pattern");
    pcre2_get_error_message(code, (PCRE2_UCHAR *)why, sizeof why);
    return tn_fail(err, TN_E_INTERNAL, "PCRE2 refuses a pre-tokenizer pattern at byte %zu: %s", (size_t)at, why);
  }
  /* Without the compiler (no executable memory) the interpreter gives the same matches. */
  (void)pcre2_jit_compile(re, PCRE2_JIT_COMPLETE);
  step->re = re;
  return TN_OK;
}

tn_status tn_pretok_compile(const tn_pretok *p, tn_pretok_code *code, tn_err *err)
{
  *code = (tn_pretok_code){0};
  pcre2_match_context *limits = pcre2_match_context_create(NULL);
  if (!limits) return tn_fail(err, TN_E_NOMEM, "no memory for the pre-tokenizer");
  pcre2_set_match_limit(limits, MATCH_LIMIT);
  pcre2_set_heap_limit(limits, HEAP_LIMIT_KIB);
  code->limits = limits;
  tn_status st = TN_OK;
  for (size_t i = 0; st == TN_OK && i < TN_PRETOK_STEPS && p->step[i]; i++) {
    st = compile_step(&code->step[i], p->step[i], err);
    if (st == TN_OK) code->n = i + 1;
  }
  return st;
}

void tn_pretok_clear(tn_pretok_code *code)
{
  for (size_t i = 0; i < code->n; i++) pcre2_code_free(code->step[i].re);
  pcre2_match_context_free(code->limits);
  *code = (tn_pretok_code){0};
}

void tn_pretok_scratch_clear(tn_pretok_scratch *s)
{
  pcre2_match_data_free(s->match);
  s->match = NULL;
}

/* One split call. */
struct split {
  const tn_pretok_code *code;
  pcre2_match_data *match;
  tn_pretok_word word;
  void *ctx;
  tn_err *err;
};

/* Next match of step k in p[0, n) from byte *from on: *from to *to. *from == n when there is none. */
static tn_status next_match(const struct split *s, size_t k, const char *p, size_t n, size_t *from, size_t *to)
{
  PCRE2_SIZE at = *from;
  while (at < n) {
    const pcre2_code *re = s->code->step[k].re;
    int rc = pcre2_match(re, (PCRE2_SPTR)p, n, at, PCRE2_NO_UTF_CHECK, s->match, s->code->limits);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT) {
      rc = pcre2_match(re, (PCRE2_SPTR)p, n, at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, s->match, s->code->limits);
    }
    if (rc == PCRE2_ERROR_NOMATCH) break;
    if (rc == PCRE2_ERROR_NOMEMORY) return tn_fail(s->err, TN_E_NOMEM, "no memory to match the pre-tokenizer");
    if (rc < 0) {
      char why[120];
      pcre2_get_error_message(rc, (PCRE2_UCHAR *)why, sizeof why);
      return tn_fail(s->err, TN_E_UNSUPPORTED, "the pre-tokenizer gives up on a word of %zu bytes: %s", n, why);
    }
    const PCRE2_SIZE *o = pcre2_get_ovector_pointer(s->match);
    if (o[1] > o[0]) {
      *from = o[0];
      *to = o[1];
      return TN_OK;
    }
    int len = tn_utf8_decode(p + at, n - at, NULL); /* an empty match cuts nothing */
    at += len > 0 ? (size_t)len : 1;
  }
  *from = n;
  return TN_OK;
}

static tn_status split_from(const struct split *s, size_t k, const char *p, size_t n);

/* p[0, n) in threes from the right: the first word takes the one or two characters that are over. */
static tn_status cut_threes(const struct split *s, size_t k, const char *p, size_t n)
{
  size_t chars = 0;
  for (size_t i = 0; i < n; i++) chars += ((uint8_t)p[i] & 0xC0u) != 0x80u;
  tn_status st = TN_OK;
  for (size_t begin = 0, i = 0; st == TN_OK && begin < n; begin = i) {
    size_t take = chars % 3 ? chars % 3 : 3;
    chars -= take;
    for (; i < n; i++) {
      if (((uint8_t)p[i] & 0xC0u) != 0x80u && take-- == 0) break;
    }
    st = split_from(s, k + 1, p + begin, i - begin);
  }
  return st;
}

/* Cuts p[0, n) by step k and those after it. The depth is the number of steps. */
static tn_status split_from(const struct split *s, size_t k, const char *p, size_t n)
{
  if (k == s->code->n) return s->word(s->ctx, p, n);
  tn_status st = TN_OK;
  for (size_t done = 0; st == TN_OK && done < n;) {
    size_t from = done, to = n;
    st = next_match(s, k, p, n, &from, &to);
    if (st == TN_OK && from > done) st = split_from(s, k + 1, p + done, from - done);
    if (st == TN_OK && from < n) {
      st = s->code->step[k].threes ? cut_threes(s, k, p + from, to - from) : split_from(s, k + 1, p + from, to - from);
    }
    done = from < n ? to : n;
  }
  return st;
}

tn_status tn_pretok_split(const tn_pretok_code *code, tn_pretok_scratch *s, const char *text, size_t n,
                          tn_pretok_word word, void *ctx, tn_err *err)
{
  if (n == 0) return TN_OK;
  if (!s->match) s->match = pcre2_match_data_create(1, NULL);
  if (!s->match) return tn_fail(err, TN_E_NOMEM, "no memory to match the pre-tokenizer");
  struct split split = {.code = code, .match = s->match, .word = word, .ctx = ctx, .err = err};
  return split_from(&split, 0, text, n);
}
