/* Stop strings that arrive in pieces: no byte of one is given out, and what only looked like one is. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

#include "serve/stop_text.h"

/* Feeds the pieces; given: all that was given out meanwhile. Returns whether a stop string ended it. */
static bool feed(const char *const *pieces, const char *stop, char given[256])
{
  const tn_str stops[] = {{stop, strlen(stop)}};
  tn_stop_text t = {.stops = stops, .n_stops = 1};
  size_t n = 0;
  bool found = false;
  for (size_t i = 0; pieces[i] && !t.stopped; i++) {
    cr_assert(tn_stop_text_feed(&t, pieces[i], strlen(pieces[i])));
    tn_str s = tn_stop_text_take(&t, false);
    memcpy(given + n, s.p, s.n);
    n += s.n;
    cr_expect(memmem(given, n, stop, strlen(stop)) == NULL, "'%s' was given out", stop);
  }
  cr_assert(tn_stop_text_end(&t, &found));
  tn_str s = tn_stop_text_take(&t, true);
  memcpy(given + n, s.p, s.n);
  given[n + s.n] = '\0';
  tn_stop_text_free(&t);
  return found;
}

#define FEED(stop_, ...) feed((const char *const[]){__VA_ARGS__, NULL}, stop_, given)

Test(stop_text, spans_pieces)
{
  char given[256];
  cr_expect(FEED("<|im_end|>", "Yes.", "<", "|", "im", "_end", "|", ">", "more"));
  cr_expect(eq(str, given, "Yes."));
  cr_expect(FEED("DEFGHIJ", "A", "BC", "DEF", "GH", "IJ", "KLM"));
  cr_expect(eq(str, given, "ABC"));
  cr_expect(FEED("DEFGHIJ", "ABCDEFGHIJKLM"));
  cr_expect(eq(str, given, "ABC"));
}

Test(stop_text, what_only_looked_like_one_is_given)
{
  char given[256];
  cr_expect(FEED("<|im_end|>", "a <", "|im_", "start|> b <|im_end|") == false);
  cr_expect(eq(str, given, "a <|im_start|> b <|im_end|"));
  cr_expect(FEED("aab", "aaa", "ab"));
  cr_expect(eq(str, given, "aa"));
}

Test(stop_text, can_be_part_of_the_text)
{
  char given[256];
  const char *const pieces[] = {"Yes", ".\n", "\n", "No", NULL};
  const tn_str stops[] = {{"\n\n", 2}};
  tn_stop_text t = {.stops = stops, .n_stops = 1, .include = true};
  size_t n = 0;
  for (size_t i = 0; pieces[i] && !t.stopped; i++) {
    cr_assert(tn_stop_text_feed(&t, pieces[i], strlen(pieces[i])));
    tn_str s = tn_stop_text_take(&t, false);
    memcpy(given + n, s.p, s.n);
    n += s.n;
  }
  given[n] = '\0';
  cr_expect(eq(str, given, "Yes.\n\n"));
  tn_stop_text_free(&t);
}
