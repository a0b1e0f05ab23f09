/* special: the tokens with a meaning of their own. Their ids come from the file; what the file leaves out is told by
 * the texts that model families use for them. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "tok_int.h"

enum {
  NAME_EOT = 1u << 0,   /* ends a chat turn, if the file names no other: the first of the table that is there */
  NAME_EOM = 1u << 1,   /* ends a message that waits for a tool */
  NAME_TYPED = 1u << 2, /* counts only where its type is control: other models use the text as plain markup */
};

/* Texts that end generation. */
static const struct {
  const char *text;
  uint32_t flags;
} ends[] = {
    {"<|eot_id|>", NAME_EOT},
    {"<|im_end|>", NAME_EOT},
    {"<|end|>", NAME_EOT},
    {"<end_of_turn>", NAME_EOT},
    {"<end_of_utterance>", NAME_EOT},
    {"<EOT>", NAME_EOT},
    {"_<EOT>", NAME_EOT},
    {"[EOT]", NAME_EOT},
    {"<|EOT|>", NAME_EOT},
    {"<|end_of_text|>", NAME_EOT},
    {"<|endoftext|>", NAME_EOT},
    {"<\xEF\xBD\x9C"
     "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>",
     NAME_EOT},
    {"<|eom_id|>", NAME_EOM},
    {"<|return|>", 0},
    {"<|call|>", 0},
    {"<|calls|>", 0},
    {"<|flush|>", 0},
    {"[EOS]", 0},
    {"<eos>", 0},
    {"</s>", NAME_TYPED},
    {"<turn|>", 0},
    {"<|tool_response>", 0},
    {"[e~[", 0},
    {"<|fim_pad|>", 0},
    {"<fim-pad>", 0},
    {"<fim_pad>", 0},
    {"<PAD>", NAME_TYPED},
    {"[PAD]", NAME_TYPED},
    {"<|fim_repo|>", 0},
    {"<|repo_name|>", 0},
    {"<fim-repo>", 0},
    {"<REPO>", NAME_TYPED},
    {"<reponame>", NAME_TYPED},
    {"<|file_sep|>", 0},
};

static int32_t find(const tn_tokenizer *t, const char *text) { return tn_vocab_find(t, text, strlen(text)); }

/* The id at key into *id, which keeps its default when the file has no such key, or has -1 there. */
static tn_status read_id(const tn_tokenizer *t, const tn_gguf *g, const char *key, int32_t *id, tn_err *err)
{
  if (*id >= t->n_vocab) *id = TN_TOKEN_NONE;
  if (!tn_gguf_has(g, key)) return TN_OK;
  uint64_t v;
  double f;
  if (!tn_gguf_u64(g, key, &v)) {
    if (tn_gguf_f64(g, key, &f) && f == -1)
      v = UINT32_MAX;
    else
      return tn_fail(err, TN_E_ARG, "%s is no token id", key);
  }
  if (v == UINT32_MAX) {
    *id = TN_TOKEN_NONE;
    return TN_OK;
  }
  if (v >= (uint64_t)t->n_vocab) {
    return tn_fail(err, TN_E_ARG, "%s is %llu, the vocabulary has %d tokens", key, (unsigned long long)v, t->n_vocab);
  }
  *id = (int32_t)v;
  return TN_OK;
}

static tn_status read_ids(tn_tokenizer *t, const tn_gguf *g, tn_err *err)
{
  bool spm = t->model == TN_TOK_SPM, unigram = t->model == TN_TOK_UNIGRAM;
  t->bos = spm ? 1 : TN_TOKEN_NONE;
  t->eos = spm ? 2 : unigram ? 1 : TN_TOKEN_NONE;
  t->unk = spm ? 0 : unigram ? 2 : TN_TOKEN_NONE;
  t->pad = unigram ? 0 : TN_TOKEN_NONE;
  t->eot = t->eom = TN_TOKEN_NONE;
  const struct {
    const char *key;
    int32_t *id;
  } ids[] = {
      {"tokenizer.ggml.bos_token_id", &t->bos},     {"tokenizer.ggml.eos_token_id", &t->eos},
      {"tokenizer.ggml.eot_token_id", &t->eot},     {"tokenizer.ggml.eom_token_id", &t->eom},
      {"tokenizer.ggml.unknown_token_id", &t->unk}, {"tokenizer.ggml.padding_token_id", &t->pad},
  };
  for (size_t i = 0; i < TN_ARRAY_LEN(ids); i++) {
    tn_status st = read_id(t, g, ids[i].key, ids[i].id, err);
    if (st != TN_OK) return st;
  }
  return TN_OK;
}

/* One of add_bos_token and add_eos_token. A default that has no token to add is dropped, a wish of the file refused. */
static tn_status read_add(const tn_gguf *g, const char *key, int32_t id, bool *add, tn_err *err)
{
  bool wish;
  if (tn_gguf_bool(g, key, &wish)) {
    *add = wish;
    if (wish && id < 0) return tn_fail(err, TN_E_ARG, "%s is true, but the file names no such token", key);
  } else if (tn_gguf_has(g, key)) {
    return tn_fail(err, TN_E_ARG, "%s is no bool", key);
  }
  if (id < 0) *add = false;
  return TN_OK;
}

static void mark_end(tn_tokenizer *t, int32_t id)
{
  if (id >= 0) t->mark[id] |= TN_MARK_EOG;
}

static void mark_ends(tn_tokenizer *t)
{
  for (size_t i = 0; i < TN_ARRAY_LEN(ends); i++) {
    int32_t id = find(t, ends[i].text);
    if (id < 0 || ((ends[i].flags & NAME_TYPED) && t->type[id] != TN_TOKEN_CONTROL)) continue;
    t->type[id] = TN_TOKEN_CONTROL;
    mark_end(t, id);
    if ((ends[i].flags & NAME_EOT) && t->eot < 0) t->eot = id;
    if ((ends[i].flags & NAME_EOM) && t->eom < 0) t->eom = id;
  }
  mark_end(t, t->eos);
  mark_end(t, t->eot);
  mark_end(t, t->eom);
}

/* Harmony and its relatives: a message has a channel and parts, whose marks belong to the answer and must be seen, and
 * <|end|> closes a part only. */
static void mark_harmony(tn_tokenizer *t)
{
  static const char *const parts[] = {"<|channel|>", "<|message|>", "<|start|>", "<|constrain|>"};
  for (size_t i = 0; i < TN_ARRAY_LEN(parts); i++) {
    int32_t id = find(t, parts[i]);
    if (id >= 0) t->type[id] = TN_TOKEN_USER_DEFINED;
  }
  int32_t end = find(t, "<|end|>");
  bool harmony = find(t, "<|return|>") >= 0 && find(t, "<|call|>") >= 0;
  bool solar = find(t, "<|flush|>") >= 0 && (find(t, "<|calls|>") >= 0 || find(t, "<|call|>") >= 0);
  if (end < 0 || !(harmony || solar)) return;
  t->type[end] = TN_TOKEN_USER_DEFINED;
  t->mark[end] &= (uint8_t)~TN_MARK_EOG;
  if (t->eot == end) t->eot = TN_TOKEN_NONE;
}

static bool has_text(tn_str s, const char *part)
{
  size_t n = strlen(part);
  for (size_t i = 0; i + n <= s.n; i++) {
    if (strncasecmp(s.p + i, part, n) == 0) return true;
  }
  return false;
}

static bool is_special(const tn_tokenizer *t, int32_t id)
{
  uint8_t type = t->type[id];
  return type == TN_TOKEN_CONTROL || type == TN_TOKEN_USER_DEFINED || type == TN_TOKEN_UNKNOWN;
}

/* Phi-3 was trained with special tokens that swallow the white space after them; the file tells by its name alone. */
static void mark_rstrip(tn_tokenizer *t, const tn_gguf *g)
{
  tn_str name;
  if (!tn_gguf_string(g, "general.name", &name) || !(has_text(name, "phi-3") || has_text(name, "phi3"))) return;
  static const char *const plain[] = {"<unk>", "<s>", "<|endoftext|>"};
  for (int32_t id = 0; id < t->n_vocab; id++) {
    if (is_special(t, id)) t->mark[id] |= TN_MARK_RSTRIP;
  }
  for (size_t i = 0; i < TN_ARRAY_LEN(plain); i++) {
    int32_t id = find(t, plain[i]);
    if (id >= 0) t->mark[id] &= (uint8_t)~TN_MARK_RSTRIP;
  }
}

static tn_status build_trie(tn_tokenizer *t, tn_err *err)
{
  size_t n = 0;
  for (int32_t id = 0; id < t->n_vocab; id++) n += is_special(t, id);
  int32_t *ids = tn_zalloc(n, sizeof *ids);
  if (!ids) return tn_fail(err, TN_E_NOMEM, "no memory for %zu special tokens", n);
  n = 0;
  for (int32_t id = 0; id < t->n_vocab; id++) {
    if (!is_special(t, id)) continue;
    ids[n++] = id;
    if (t->type[id] == TN_TOKEN_USER_DEFINED) t->has_user_defined = true;
  }
  tn_status st = tn_trie_build(&t->special, t->text, ids, n);
  free(ids);
  return st == TN_OK ? st : tn_fail(err, st, "no memory for %zu special tokens", n);
}

tn_status tn_special_read(tn_tokenizer *t, const tn_gguf *g, tn_err *err)
{
  tn_status st = read_ids(t, g, err);
  t->add_bos = t->model == TN_TOK_SPM || (t->pre && t->pre->add_bos);
  t->add_eos = t->model == TN_TOK_UNIGRAM;
  if (st == TN_OK) st = read_add(g, "tokenizer.ggml.add_bos_token", t->bos, &t->add_bos, err);
  if (st == TN_OK) st = read_add(g, "tokenizer.ggml.add_eos_token", t->eos, &t->add_eos, err);
  if (st != TN_OK) return st;
  mark_ends(t);
  mark_harmony(t);
  mark_rstrip(t, g);
  return build_trie(t, err);
}
