/* eval_ppl_state: finished chunks on file. See eval_ppl.h. */
#include <stdlib.h>

#include "cli/eval_ppl.h"
#include "sha256.h"

static json_t *about(const ppl_args *a, const tn_chunks *c)
{
  uint8_t sum[32];
  char text[65], tested[TN_FINGERPRINT_HEX + 1], reference[TN_FINGERPRINT_HEX + 1] = "";
  tn_sha256 h;
  tn_sha256_init(&h);
  tn_sha256_update(&h, c->tokens, (size_t)c->n_tokens * sizeof *c->tokens);
  tn_sha256_final(&h, sum);
  tn_sha256_hex(sum, text);
  tn_composition_short(a->e.setup[0].composition, tested);
  if (a->e.has_reference) tn_composition_short(a->e.setup[1].composition, reference);
  return json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:I}", "measures", a->e.cli.usage->command, "composition", tested,
                   "reference", reference, "base", a->base_file ? a->base_file : "", "text_sha256", text, "n_ctx",
                   (json_int_t)c->n_ctx, "n_prompt", (json_int_t)c->n_prompt);
}

/* One number of a token's line, false when it is none. */
static bool number(const json_t *line, size_t i, double *out)
{
  const json_t *v = json_array_get(line, i);
  *out = json_number_value(v);
  return json_is_number(v);
}

static tn_status take_chunk(const char *path, const json_t *piece, const tn_chunks *c, tn_quality *q, tn_err *err)
{
  const json_t *lines = json_object_get(piece, "tokens");
  size_t n = (size_t)(c->n_ctx - 1 - c->n_prompt);
  bool ok = json_array_size(lines) == n;
  tn_kld_token *t = tn_zalloc(n, sizeof *t);
  if (!t) return tn_fail(err, TN_E_NOMEM, "%s: no memory for a chunk", path);
  for (size_t i = 0; ok && i < n; i++) {
    const json_t *l = json_array_get(lines, i);
    double same = 0;
    ok = number(l, 0, &t[i].nll) && number(l, 1, &t[i].nll_base) && number(l, 2, &t[i].kld) &&
         number(l, 3, &t[i].unseen) && number(l, 4, &same);
    t[i].pos = c->n_prompt + (int64_t)i;
    t[i].same_top = same > 0;
  }
  tn_status st = ok ? tn_quality_add(q, t, (int64_t)n, err)
                    : tn_fail(err, TN_E_IO, "%s: chunk %u is not %zu tokens of 5 numbers each", path, q->n_done + 1, n);
  free(t);
  return st;
}

tn_status ppl_resume(const ppl_args *a, const tn_chunks *c, tn_journal **out, tn_quality *q, tn_err *err)
{
  const json_t *piece;
  q->based = a->e.has_reference || a->base_file;
  tn_status st = tn_journal_open(a->resume_file, about(a, c), out, err);
  for (size_t i = 0; st == TN_OK && i < c->n_chunks && (piece = tn_journal_at(*out, i)); i++)
    st = take_chunk(a->resume_file, piece, c, q, err);
  return st;
}

tn_status ppl_keep(tn_journal *j, const tn_quality *q, const tn_chunks *c, tn_err *err)
{
  int64_t n = c->n_ctx - 1 - c->n_prompt;
  json_t *lines = json_array();
  for (int64_t i = q->n - n; i < q->n; i++) {
    const tn_kld_token *t = &q->tokens[i];
    json_array_append_new(lines,
                          json_pack("[f, f, f, f, i]", t->nll, t->nll_base, t->kld, t->unseen, (int)t->same_top));
  }
  return tn_journal_add(j, json_pack("{s:i, s:o}", "chunk", (int)q->n_done, "tokens", lines), err);
}
