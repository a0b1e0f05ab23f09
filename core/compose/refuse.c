/* refuse: the one sentence that says why a composition cannot work, and what to change. */
#include <stdio.h>
#include <string.h>

#include "compose/compose_int.h"
#include "compose/tokens.h"
#include "loader/slot.h"

bool tn_is_range(const tn_choice *p)
{
  return p->slot == TN_SLOT_ATTENTION && (p->layer0 != 0 || p->layer1 != TN_LAYER_END);
}

void tn_range_words(const tn_choice *p, char out[32])
{
  if (p->layer1 == TN_LAYER_END)
    snprintf(out, 32, "%u-", p->layer0);
  else if (p->layer1 == p->layer0 + 1)
    snprintf(out, 32, "%u", p->layer0);
  else
    snprintf(out, 32, "%u-%u", p->layer0, p->layer1 - 1);
}

void tn_option_words(const tn_stack *s, uint32_t option, int64_t value, char *buf, size_t n)
{
  const tn_param *p = s->engine->params[option];
  const char *text = value ? "true" : "false";
  if (p->type == TN_T_ENUM) text = value < p->n_choices ? p->choices[value] : "";
  snprintf(buf, n, "engine.%s = %s", p->key, text);
}

/* The end of where, if it is long: the file's name and line count most. */
static const char *shown(const char *where, const char **dots)
{
  size_t n = strlen(where), most = 40;
  *dots = n > most ? "..." : "";
  if (n <= most) return where;
  where += n - most;
  while (((unsigned char)*where & 0xC0u) == 0x80u) where++;
  return where;
}

/* "kv = int8 (conf/a.ini:12)" */
static void side_words(const tn_stack *s, tn_side side, char *buf, size_t n)
{
  char what[160] = "", range[32];
  const char *where = "default", *dots;
  buf[0] = '\0';
  if (side.kind == TN_SIDE_PART) {
    const tn_choice *p = &s->part[side.index];
    tn_range_words(p, range);
    if (tn_is_range(p))
      snprintf(what, sizeof what, TN_KEY_ATTENTION_LAYERS " = %s:%s", range, p->desc->name);
    else
      snprintf(what, sizeof what, "%s = %s", p->key, p->desc->name);
    where = p->where;
  } else if (side.kind == TN_SIDE_ENGINE) {
    tn_option_words(s, side.index, s->set[side.index], what, sizeof what);
    if (s->engine->from[side.index]) where = s->engine->from[side.index]->where;
  }
  const char *tail = shown(where, &dots);
  if (*what) snprintf(buf, n, "%s (%s%s)", what, dots, tail);
}

/* The side as the subject of a clause: "int8", "verify = lossless". */
static void subject(const tn_stack *s, tn_side side, char *buf, size_t n)
{
  if (side.kind == TN_SIDE_PART) {
    snprintf(buf, n, "%s", s->part[side.index].desc->name);
  } else {
    char words[160];
    tn_option_words(s, side.index, s->set[side.index], words, sizeof words);
    snprintf(buf, n, "%s", words + strlen("engine."));
  }
}

/* "attention scores per head (attn.scores/1)" */
static void token_words(const char *token, char *buf, size_t n)
{
  const tn_token_info *info = tn_capability_find(token);
  if (info)
    snprintf(buf, n, "%s (%s)", info->phrase, token);
  else
    snprintf(buf, n, "%s", token);
}

static void need_words(const tn_stack *s, const tn_clash *c, char *buf, size_t n)
{
  char a[240], b[240], who[160], other[160], token[160];
  side_words(s, c->a, a, sizeof a);
  side_words(s, c->b, b, sizeof b);
  subject(s, c->a, who, sizeof who);
  token_words(c->token, token, sizeof token);
  if (c->b.kind == TN_SIDE_PART && c->b.index == c->a.index && c->a.kind == TN_SIDE_PART) {
    snprintf(buf, n, "%s does not work: %s needs %s, which it would have to bring itself", a, who, token);
  } else if (c->b.kind == TN_SIDE_PART) {
    subject(s, c->b, other, sizeof other);
    snprintf(buf, n, "%s does not work with %s: %s needs %s, which %s does not offer", a, b, who, token, other);
  } else if (c->b.kind == TN_SIDE_SLOT) {
    snprintf(buf, n, "%s does not work without a plugin of slot %s: %s needs %s", a, tn_slot_name(c->b.index), who,
             token);
  } else {
    snprintf(buf, n, "%s does not work: %s needs %s, which no part of the composition offers", a, who, token);
  }
}

static void conflict_words(const tn_stack *s, const tn_clash *c, char *buf, size_t n)
{
  char a[240], b[240], who[160], other[160], token[160];
  side_words(s, c->a, a, sizeof a);
  side_words(s, c->b, b, sizeof b);
  subject(s, c->a, who, sizeof who);
  subject(s, c->b, other, sizeof other);
  token_words(c->token, token, sizeof token);
  snprintf(buf, n, "%s does not work with %s: %s excludes %s, which %s %s", a, b, who, token, other,
           c->b_needs ? "needs" : "brings");
}

static void own_words(const tn_stack *s, const tn_clash *c, char *buf, size_t n)
{
  char a[240];
  side_words(s, c->a, a, sizeof a);
  if (c->kind == TN_CLASH_USE)
    snprintf(buf, n, "%s does not work: %s is a quantizer of weights only, it has no layout for cached keys and values",
             a, s->part[c->a.index].desc->name);
  else
    snprintf(buf, n, "%s does not work: %.280s", a,
             c->text.msg[0] ? c->text.msg : "its plugin refuses the composition without a reason");
}

tn_status tn_refuse(const tn_stack *s, const tn_clash *c, tn_err *err)
{
  char reason[1200], changes[512];
  if (c->kind == TN_CLASH_NEED)
    need_words(s, c, reason, sizeof reason);
  else if (c->kind == TN_CLASH_CONFLICT)
    conflict_words(s, c, reason, sizeof reason);
  else
    own_words(s, c, reason, sizeof reason);
  tn_suggest(s, c, changes, sizeof changes);
  if (*changes) return tn_fail(err, TN_E_UNSUPPORTED, "%s; nearest working change: %s", reason, changes);
  return tn_fail(err, TN_E_UNSUPPORTED, "%s; no change of up to three keys makes it work", reason);
}
