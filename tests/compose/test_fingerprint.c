/* The fingerprint: pinned, the same for the same composition however it is written, and another for any other. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compose/composed.h"

static char *print_of(const char *text, bool with_base, const tn_compose_model *model)
{
  static char hex[16][TN_FINGERPRINT_HEX + 1];
  static int next;
  char *out = hex[next++ % 16];
  composed w = {0};
  composed_open(&w, text, with_base, NULL, model);
  cr_assert(w.c != NULL, "%s", w.err.msg);
  tn_composition_short(w.c, out);
  composed_free(&w);
  return out;
}

static char *print(const char *text) { return print_of(text, true, NULL); }

/* A change of this value needs a reason: results of before and after can then not be compared by fingerprint. */
Test(fingerprint, pinned)
{
  tn_compose_model m = small_model("");
  cr_assert(eq(str, print_of("[compose]\neviction = last\nkv = q8\n", true, &m), "9ed1b40f84da4f42"));
}

Test(fingerprint, how_it_is_written_does_not_matter)
{
  char *want = print("[compose]\neviction = last\nkv = q8\n[eviction.last]\nfirst = 2\nspan = 9\n");
  cr_assert(eq(str, print("[eviction.last]\nspan = 9\nfirst = 2\n[compose]\nkv = q8\neviction = last\n"), want));
  cr_assert(eq(str,
               print_of("include = base.ini\n[eviction.last]\nspan = 9\nfirst = 2\n[compose]\nkv = q8\n"
                        "eviction = last\n",
                        false, NULL),
               want));
  cr_assert(eq(str, print("[compose]\neviction = last\nkv = q8\n[eviction.last]\nfirst = +2\nspan = 009\n"), want));
}

Test(fingerprint, a_default_spelled_out_is_the_default)
{
  cr_assert(eq(str, print("[compose]\neviction = last\n[eviction.last]\nfirst = 4\n"),
               print("[compose]\neviction = last\n")));
  cr_assert(eq(str, print("[compose]\nattention.layers = 0-:plain\n"), print("")));
  cr_assert(eq(str, print("[compose]\nposition = turn\n"), print("")));
}

Test(fingerprint, options_that_cannot_change_tokens_do_not_count)
{
  cr_assert(eq(str, print("[compose]\neviction = last\n[eviction.last]\nlog_every = 5\n"),
               print("[compose]\neviction = last\n")));
  cr_assert(eq(str, print("[engine]\nthreads = 2\nmax_rows = 64\nunfused = yes\n"), print("")));
}

Test(fingerprint, what_can_change_tokens_counts)
{
  char *base = print("[compose]\neviction = last\nkv = q8\n");
  cr_assert(ne(str, print("[compose]\neviction = last\nkv = q8\n[eviction.last]\nspan = 9\n"), base));
  cr_assert(ne(str, print("[compose]\neviction = last\nkv = q8\n[quantizer.q8]\nmode = odd\n"), base));
  cr_assert(ne(str, print("[compose]\neviction = last\nkv = q8\nbackend = whole\n"), base));
  cr_assert(ne(str, print("[compose]\neviction = last\nweights = q8\n"), base));
  cr_assert(ne(str, print("[engine]\nactivations = int8\n"), print("")));
  cr_assert(ne(str, print("[engine]\nseed = 1\n"), print("")));
  cr_assert(ne(str, print("[compose]\nattention.layers = 0:plain,1-:window\n"),
               print("[compose]\nattention.layers = 0:window,1-:plain\n")));
}

Test(fingerprint, model_and_version_count)
{
  tn_compose_model a = small_model(""), b = small_model("");
  b.identity[31] = 1;
  cr_assert(ne(str, print_of("", true, &a), print("")));
  cr_assert(ne(str, print_of("", true, &a), print_of("", true, &b)));
  composed w = {.mock = {.version = "1.0.1"}};
  char hex[TN_FINGERPRINT_HEX + 1];
  composed_open(&w, "", true, NULL, NULL);
  tn_composition_short(w.c, hex);
  composed_free(&w);
  cr_assert(ne(str, hex, print("")));
}

/* A file that an option names counts by its contents, not by where it lies. */
Test(fingerprint, files_count_by_content)
{
  char dir[] = "/tmp/tn_print_XXXXXX", path[3][64], text[256], *print_a, *print_b, *print_c;
  cr_assert(mkdtemp(dir) != NULL);
  for (int i = 0; i < 3; i++) {
    snprintf(path[i], sizeof path[i], "%s/%d.bin", dir, i);
    FILE *f = fopen(path[i], "w");
    for (int k = 0; k < 100000; k++) fputc(i == 2 && k == 99999 ? 'x' : k, f);
    fclose(f);
  }
#define WITH(i) (snprintf(text, sizeof text, "[compose]\nkv = q8\n[quantizer.q8]\ntable = %s\n", path[i]), print(text))
  print_a = WITH(0);
  print_b = WITH(1);
  print_c = WITH(2);
  cr_expect(eq(str, print_a, print_b));
  cr_expect(ne(str, print_a, print_c));
  for (int i = 0; i < 3; i++) unlink(path[i]);
  rmdir(dir);
}
