/* recall: see recall.h. */
#include "recall.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const tn_recall_names[TN_RECALL_N] = {"needle", "passkey", "multikey", "vartrack"};

enum { MAX_FACTS = 5, FACT_CHARS = 160, ASK_CHARS = 512 };

typedef struct story { /* what is hidden and what is asked */
  char fact[MAX_FACTS][FACT_CHARS];
  double at[MAX_FACTS]; /* depth, ascending */
  uint32_t n;
  char ask[ASK_CHARS], answer[FACT_CHARS];
} story;

typedef struct piece {
  int32_t *ids;
  size_t n;
} piece;

static uint64_t draw(uint64_t *state)
{
  uint64_t z = *state += 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

static unsigned number(uint64_t *state, unsigned digits)
{
  unsigned low = 1;
  for (unsigned i = 1; i < digits; i++) low *= 10;
  return low + (unsigned)(draw(state) % (9 * (uint64_t)low));
}

static const char *const words[] = {"river",  "window", "garden", "copper", "lantern", "meadow", "harbor", "winter",
                                    "castle", "pepper", "silver", "forest", "bridge",  "candle", "mirror", "island"};

static void tell_needles(story *s, uint64_t *state, double depth, uint32_t n)
{
  size_t first = draw(state) % TN_ARRAY_LEN(words), asked = 0;
  for (uint32_t i = 0; i < n; i++) s->at[i] = n == 1 ? depth : (i + 0.5) / n;
  if (n > 1) asked = depth >= 1 ? n - 1 : (size_t)(depth * n);
  s->at[asked] = depth;
  for (uint32_t i = 0; i < n; i++) {
    const char *key = words[(first + 5 * i) % TN_ARRAY_LEN(words)];
    unsigned value = number(state, 7);
    snprintf(s->fact[i], FACT_CHARS, " One of the special magic numbers for %s is: %u.", key, value);
    if (i != asked) continue;
    snprintf(s->ask, ASK_CHARS,
             "\n\nWhat is the special magic number for %s mentioned in the text? The special magic number for %s "
             "mentioned in the text is:",
             key, key);
    snprintf(s->answer, FACT_CHARS, " %u", value);
  }
  s->n = n;
}

static void tell_passkey(story *s, uint64_t *state, double depth)
{
  unsigned key = number(state, 5);
  snprintf(s->fact[0], FACT_CHARS, " The pass key is %u. Remember it. %u is the pass key.", key, key);
  snprintf(s->ask, ASK_CHARS, "\n\nWhat is the pass key? The pass key is");
  snprintf(s->answer, FACT_CHARS, " %u", key);
  s->at[0] = depth;
  s->n = 1;
}

static void tell_chain(story *s, uint64_t *state, double depth)
{
  unsigned value = number(state, 5);
  char name[MAX_FACTS][8];
  size_t n = 0;
  for (uint32_t i = 0; i < MAX_FACTS; i++) {
    for (int k = 0; k < 3; k++) name[i][k] = (char)('A' + (int)(draw(state) % 26));
    snprintf(name[i] + 3, sizeof name[i] - 3, "%u", i + 1); /* no two alike */
    if (i == 0)
      snprintf(s->fact[i], FACT_CHARS, " VAR %s = %u.", name[i], value);
    else
      snprintf(s->fact[i], FACT_CHARS, " VAR %s = VAR %s.", name[i], name[i - 1]);
    s->at[i] = depth + (1 - depth) * i / MAX_FACTS;
    n += (size_t)snprintf(s->answer + n, FACT_CHARS - n, " %s", name[i]);
  }
  snprintf(s->ask, ASK_CHARS,
           "\n\nFind all variables that are assigned the value %u in the text above. Answer: According to the chain of "
           "assignments, 5 variables are assigned the value %u, they are:",
           value, value);
  s->n = MAX_FACTS;
}

static const char intro_needle[] = "Some special magic numbers are hidden within the following text. Make sure to "
                                   "memorize them. I will quiz you about the numbers afterwards.\n\n";
static const char intro_passkey[] = "There is an important info hidden inside a lot of irrelevant text. Find it and "
                                    "memorize it. I will quiz you about the important information there.\n\n";
static const char intro_chain[] =
    "Memorize and track the chain(s) of variable assignment hidden in the following text.\n\n";
static const char noise[] =
    " The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again.";

/* Tokens of the haystack from its start, as often as needed. */
static void fill(const piece *hay, int64_t from, int64_t n, int32_t *out)
{
  for (int64_t i = 0; i < n; i++) out[i] = hay->ids[(from + i) % (int64_t)hay->n];
}

/* Does the text of a token end a sentence or a line? */
static bool ends(const tn_tokenizer *t, int32_t id)
{
  char text[32];
  size_t n = tn_token_piece(t, id, 0, text, sizeof text);
  return n > 0 && n <= sizeof text && (text[n - 1] == '.' || text[n - 1] == '\n');
}

/* A place near `at` of the haystack, not before `least`, behind the end of a sentence where there is one. */
static int64_t break_near(const tn_tokenizer *t, const piece *hay, int64_t at, int64_t least)
{
  for (int64_t i = at; i > least && i > at - 64; i--)
    if (ends(t, hay->ids[(i - 1) % (int64_t)hay->n])) return i;
  return at;
}

/* p: intro, haystack, ask, answer, facts. */
enum { INTRO = 0, HAY, ASK, ANSWER, FACTS, N_PIECES = FACTS + MAX_FACTS };

static tn_status lay_out(const tn_tokenizer *t, const tn_recall_spec *spec, const story *s, const piece *p,
                         tn_recall *out, tn_err *err)
{
  int64_t fixed = 0, done = 0, at = 0;
  for (uint32_t i = 0; i < FACTS + s->n; i++) fixed += i == HAY ? 0 : (int64_t)p[i].n;
  int64_t filler = spec->length - fixed;
  if (p[HAY].n == 0) return tn_fail(err, TN_E_ARG, "the haystack has no tokens");
  if (filler < 1)
    return tn_fail(err, TN_E_ARG, "a %s text of %lld tokens: what is to be said in it takes %lld",
                   tn_recall_names[spec->kind], (long long)spec->length, (long long)fixed);
  out->n = spec->length;
  out->n_prompt = out->n - (int64_t)p[ANSWER].n;
  out->tokens = tn_zalloc((size_t)out->n, sizeof *out->tokens);
  if (!out->tokens) return tn_fail(err, TN_E_NOMEM, "no memory for a text of %lld tokens", (long long)out->n);
  memcpy(out->tokens, p[INTRO].ids, p[INTRO].n * sizeof *out->tokens);
  at = (int64_t)p[INTRO].n;
  for (uint32_t i = 0; i <= s->n; i++) {
    int64_t until = i < s->n ? break_near(t, &p[HAY], (int64_t)llround(s->at[i] * (double)filler), done) : filler;
    fill(&p[HAY], done, until - done, out->tokens + at);
    at += until - done;
    done = until;
    if (i == s->n) continue;
    memcpy(out->tokens + at, p[FACTS + i].ids, p[FACTS + i].n * sizeof *out->tokens);
    at += (int64_t)p[FACTS + i].n;
  }
  memcpy(out->tokens + at, p[ASK].ids, p[ASK].n * sizeof *out->tokens);
  memcpy(out->tokens + out->n_prompt, p[ANSWER].ids, p[ANSWER].n * sizeof *out->tokens);
  return TN_OK;
}

tn_status tn_recall_make(const tn_tokenizer *t, const tn_recall_spec *spec, tn_recall *out, tn_err *err)
{
  *out = (tn_recall){0};
  if (spec->kind >= TN_RECALL_N || !(spec->depth >= 0 && spec->depth <= 1))
    return tn_fail(err, TN_E_ARG, "kind %u, depth %g: must be below %d, from 0 to 1", spec->kind, spec->depth,
                   (int)TN_RECALL_N);
  story *s = tn_zalloc(1, sizeof *s);
  if (!s) return tn_fail(err, TN_E_NOMEM, "no memory for a text");
  uint64_t state = spec->seed;
  bool key = spec->kind == TN_RECALL_PASSKEY, chain = spec->kind == TN_RECALL_VARTRACK;
  if (key)
    tell_passkey(s, &state, spec->depth);
  else if (chain)
    tell_chain(s, &state, spec->depth);
  else
    tell_needles(s, &state, spec->depth, spec->kind == TN_RECALL_MULTIKEY ? 4 : 1);
  const char *intro = key ? intro_passkey : chain ? intro_chain : intro_needle;
  tn_str text[N_PIECES] = {[INTRO] = {intro, strlen(intro)},
                           [HAY] = key ? (tn_str){noise, sizeof noise - 1} : spec->haystack,
                           [ASK] = {s->ask, strlen(s->ask)},
                           [ANSWER] = {s->answer, strlen(s->answer)}};
  for (uint32_t i = 0; i < s->n; i++) text[FACTS + i] = (tn_str){s->fact[i], strlen(s->fact[i])};
  piece p[N_PIECES] = {{0}};
  tn_status st = TN_OK;
  for (uint32_t i = 0; st == TN_OK && i < FACTS + s->n; i++)
    st = tn_tokenize(t, text[i].p, text[i].n, i == INTRO ? TN_TOKENIZE_ADD_SPECIAL : 0, &p[i].ids, &p[i].n, err);
  if (st == TN_OK && tn_tokenizer_adds_eos(t) && p[INTRO].n > 0) p[INTRO].n--; /* the text goes on */
  if (st == TN_OK) st = lay_out(t, spec, s, p, out, err);
  for (uint32_t i = 0; i < N_PIECES; i++) free(p[i].ids);
  free(s);
  if (st != TN_OK) tn_recall_free(out);
  return st;
}

void tn_recall_free(tn_recall *r)
{
  free(r->tokens);
  *r = (tn_recall){0};
}
