/* tokenizer: loading, and what callers ask of a vocabulary. */
#include "tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "../utf8.h"
#include "tok_int.h"

static const char key_model[] = "tokenizer.ggml.model";
static const char key_pre[] = "tokenizer.ggml.pre";
static const char *const models[] = {[TN_TOK_BPE] = "gpt2", [TN_TOK_SPM] = "llama", [TN_TOK_UNIGRAM] = "t5"};

char *tn_tok_show(tn_str s, char buf[TN_SHOWN])
{
  size_t o = 0;
  for (size_t i = 0; i < s.n && o + 4 < TN_SHOWN;) {
    int len = tn_utf8_decode(s.p + i, s.n - i, NULL);
    bool plain = len > 1 || (len == 1 && s.p[i] >= ' ' && s.p[i] != 0x7F);
    memcpy(buf + o, plain ? s.p + i : "?", plain ? (size_t)len : 1);
    o += plain ? (size_t)len : 1;
    i += len > 0 ? (size_t)len : 1;
  }
  buf[o] = '\0';
  return buf;
}

static tn_status read_model(tn_tokenizer *t, const tn_gguf *g, tn_err *err)
{
  tn_str name;
  char shown[TN_SHOWN];
  if (!tn_gguf_string(g, key_model, &name)) {
    return tn_fail(err, TN_E_ARG, "%s is missing or no string: the file has no tokenizer", key_model);
  }
  for (size_t i = 0; i < TN_ARRAY_LEN(models); i++) {
    if (strlen(models[i]) != name.n || memcmp(models[i], name.p, name.n) != 0) continue;
    t->model = (int)i;
    return TN_OK;
  }
  return tn_fail(err, TN_E_UNSUPPORTED, "%s is '%s', the tokenizers are gpt2, llama and t5", key_model,
                 tn_tok_show(name, shown));
}

static tn_status read_pre(tn_tokenizer *t, const tn_gguf *g, tn_err *err)
{
  tn_str name;
  const char *nearest;
  char shown[TN_SHOWN];
  if (t->model != TN_TOK_BPE) return TN_OK;
  if (!tn_gguf_string(g, key_pre, &name)) {
    return tn_fail(
        err, TN_E_ARG,
        "%s is missing or no string, and a gpt2 tokenizer cuts text by it: convert the model anew, or set it", key_pre);
  }
  t->pre = tn_pretok_find(name, &nearest);
  if (t->pre) return TN_OK;
  return tn_fail(err, TN_E_UNSUPPORTED, "%s is '%s', which is not known%s%s%s", key_pre, tn_tok_show(name, shown),
                 nearest ? "; the nearest known name is '" : "", nearest ? nearest : "", nearest ? "'" : "");
}

static tn_status read_flag(const tn_gguf *g, const char *key, bool *flag, tn_err *err)
{
  if (tn_gguf_bool(g, key, flag) || !tn_gguf_has(g, key)) return TN_OK;
  return tn_fail(err, TN_E_ARG, "%s is no bool", key);
}

static tn_status load(tn_tokenizer *t, const tn_gguf *g, tn_err *err)
{
  tn_status st = read_model(t, g, err);
  if (st == TN_OK) st = read_pre(t, g, err);
  if (st == TN_OK) st = tn_vocab_read(t, g, err);
  if (st == TN_OK) st = tn_special_read(t, g, err);
  if (st == TN_OK && t->model != TN_TOK_BPE) {
    t->space_prefix = true;
    st = read_flag(g, "tokenizer.ggml.add_space_prefix", &t->space_prefix, err);
    if (st == TN_OK) st = read_flag(g, "tokenizer.ggml.remove_extra_whitespaces", &t->trim_spaces, err);
  }
  if (st != TN_OK) return st;
  switch (t->model) {
    case TN_TOK_BPE: return tn_bpe_read(t, g, err);
    case TN_TOK_SPM: return tn_spm_read(t, g, err);
    default: return tn_unigram_read(t, g, err);
  }
}

tn_status tn_tokenizer_load(const tn_gguf *g, tn_tokenizer **out, tn_err *err)
{
  *out = NULL;
  tn_tokenizer *t = tn_zalloc(1, sizeof *t);
  if (!t) return tn_fail(err, TN_E_NOMEM, "%s: no memory for the tokenizer", tn_gguf_path(g));
  tn_status st = load(t, g, err);
  if (st != TN_OK) {
    tn_err_prefix(err, "%s", tn_gguf_path(g));
    tn_tokenizer_free(t);
    return st;
  }
  *out = t;
  return TN_OK;
}

void tn_tokenizer_free(tn_tokenizer *t)
{
  if (!t) return;
  tn_vocab_clear(t);
  tn_merges_clear(&t->merges);
  tn_pretok_clear(&t->code);
  tn_trie_clear(&t->special);
  tn_trie_clear(&t->pieces);
  tn_charsmap_clear(&t->charsmap);
  free(t);
}

int32_t tn_tokenizer_n_vocab(const tn_tokenizer *t) { return t->n_vocab; }
int32_t tn_tokenizer_bos(const tn_tokenizer *t) { return t->bos; }
int32_t tn_tokenizer_eos(const tn_tokenizer *t) { return t->eos; }
int32_t tn_tokenizer_eot(const tn_tokenizer *t) { return t->eot; }
int32_t tn_tokenizer_unk(const tn_tokenizer *t) { return t->unk; }
int32_t tn_tokenizer_pad(const tn_tokenizer *t) { return t->pad; }
bool tn_tokenizer_adds_bos(const tn_tokenizer *t) { return t->add_bos; }
bool tn_tokenizer_adds_eos(const tn_tokenizer *t) { return t->add_eos; }
const char *tn_tokenizer_model(const tn_tokenizer *t) { return models[t->model]; }
const char *tn_tokenizer_pre(const tn_tokenizer *t) { return t->pre ? t->pre->name : ""; }

static bool in_vocab(const tn_tokenizer *t, int32_t id) { return id >= 0 && id < t->n_vocab; }

bool tn_token_is_eog(const tn_tokenizer *t, int32_t id) { return in_vocab(t, id) && (t->mark[id] & TN_MARK_EOG); }

int32_t tn_token_type(const tn_tokenizer *t, int32_t id) { return in_vocab(t, id) ? t->type[id] : TN_TOKEN_UNDEFINED; }

tn_str tn_token_text(const tn_tokenizer *t, int32_t id) { return in_vocab(t, id) ? t->text[id] : (tn_str){"", 0}; }

int32_t tn_token_find(const tn_tokenizer *t, const char *text, size_t n) { return tn_vocab_find(t, text, n); }
