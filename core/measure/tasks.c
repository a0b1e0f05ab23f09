/* tasks: see tasks.h. */
#include "tasks.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

typedef struct place { /* for messages */
  const char *path;
  size_t line;
} place;

static void task_free(tn_task *t)
{
  for (uint32_t i = 0; t->choices && i < t->n_choices; i++) free(t->choices[i]);
  free(t->choices);
  free(t->context);
}

void tn_tasks_free(tn_tasks *t)
{
  for (size_t i = 0; i < t->n; i++) task_free(&t->at[i]);
  free(t->at);
  *t = (tn_tasks){0};
}

/* The first of several names that the object has. */
static const json_t *member(const json_t *line, const char *const *names, size_t n)
{
  for (size_t i = 0; i < n; i++)
    if (json_object_get(line, names[i])) return json_object_get(line, names[i]);
  return NULL;
}

static bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t'; }

static tn_status take_choices(const place *p, const json_t *list, tn_task *t, tn_err *err)
{
  size_t n = json_array_size(list), at = strlen(t->context);
  if (n < 1 || n > TN_TASK_MAX_CHOICES)
    return tn_fail(err, TN_E_ARG, "%s:%zu: choices: an array of 1 to %d texts is wanted, there are %zu", p->path,
                   p->line, (int)TN_TASK_MAX_CHOICES, n);
  t->choices = tn_zalloc(n, sizeof *t->choices);
  if (!t->choices) return tn_fail(err, TN_E_NOMEM, "%s:%zu: no memory for its choices", p->path, p->line);
  bool spaced = at == 0 || is_space(t->context[at - 1]);
  for (; t->n_choices < n; t->n_choices++) {
    const char *text = json_string_value(json_array_get(list, t->n_choices));
    if (!text || !*text)
      return tn_fail(err, TN_E_ARG, "%s:%zu: choices[%u]: is no text, or an empty one", p->path, p->line, t->n_choices);
    char *choice = tn_asprintf("%s%s", spaced || is_space(*text) ? "" : " ", text);
    if (!choice) return tn_fail(err, TN_E_NOMEM, "%s:%zu: no memory for its choices", p->path, p->line);
    t->choices[t->n_choices] = choice;
  }
  return TN_OK;
}

/* The right one by index, text, or letter; lm-evaluation-harness's files have each. */
static tn_status take_gold(const place *p, const json_t *gold, const json_t *list, tn_task *t, tn_err *err)
{
  const char *text = json_string_value(gold);
  json_int_t index = json_is_integer(gold) ? json_integer_value(gold) : -1;
  for (uint32_t i = 0; text && index < 0 && i < t->n_choices; i++)
    if (!strcmp(text, json_string_value(json_array_get(list, i)))) index = i;
  if (text && index < 0 && text[0] && !text[1])
    index = text[0] >= 'A' && text[0] <= 'Z' ? text[0] - 'A' : text[0] >= '0' && text[0] <= '9' ? text[0] - '0' : -1;
  if (index < 0 || index >= t->n_choices) {
    char *said = gold ? json_dumps(gold, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    tn_status st = tn_fail(err, TN_E_ARG, "%s:%zu: gold: %s is none of the %u choices", p->path, p->line,
                           said ? said : "nothing", t->n_choices);
    free(said);
    return st;
  }
  t->gold = (uint32_t)index;
  return TN_OK;
}

static tn_status parse_line(const place *p, const json_t *line, tn_task *t, tn_err *err)
{
  static const char *const contexts[] = {"context", "question", "query", "ctx", "prompt"},
                           *const choices[] = {"choices", "endings"},
                           *const golds[] = {"gold", "label", "answer", "answerKey", "target"};
  const json_t *context = member(line, contexts, TN_ARRAY_LEN(contexts)),
               *list = member(line, choices, TN_ARRAY_LEN(choices)), *gold = member(line, golds, TN_ARRAY_LEN(golds));
  if (json_is_object(list)) list = json_object_get(list, "text");
  if (!json_string_length(context))
    return tn_fail(err, TN_E_ARG, "%s:%zu: context: there is none, or it is no text", p->path, p->line);
  t->context = tn_strdup(json_string_value(context));
  if (!t->context) return tn_fail(err, TN_E_NOMEM, "%s:%zu: no memory for its context", p->path, p->line);
  tn_status st = take_choices(p, list, t, err);
  return st == TN_OK ? take_gold(p, gold, list, t, err) : st;
}

static tn_status add_line(const place *p, const char *text, size_t n, tn_tasks *out, tn_err *err)
{
  json_error_t why;
  tn_task t = {0};
  json_t *line = json_loadb(text, n, 0, &why);
  if (!line) return tn_fail(err, TN_E_ARG, "%s:%zu: is no JSON: %s", p->path, p->line, why.text);
  tn_status st = parse_line(p, line, &t, err);
  json_decref(line);
  tn_task *grown = st == TN_OK ? realloc(out->at, (out->n + 1) * sizeof *grown) : NULL;
  if (st == TN_OK && !grown) st = tn_fail(err, TN_E_NOMEM, "%s:%zu: no memory for it", p->path, p->line);
  if (st != TN_OK) {
    task_free(&t);
    return st;
  }
  out->at = grown;
  out->at[out->n++] = t;
  return TN_OK;
}

tn_status tn_tasks_parse(const char *path, const char *text, size_t n_text, tn_tasks *out, tn_err *err)
{
  tn_status st = TN_OK;
  place p = {path, 0};
  *out = (tn_tasks){0};
  for (size_t at = 0, n; st == TN_OK && at < n_text; at += n + 1) {
    const char *nl = memchr(text + at, '\n', n_text - at);
    n = nl ? (size_t)(nl - (text + at)) : n_text - at;
    p.line++;
    size_t blank = 0;
    while (blank < n && (is_space(text[at + blank]) || text[at + blank] == '\r')) blank++;
    if (blank < n) st = add_line(&p, text + at, n, out, err);
  }
  if (st == TN_OK && out->n == 0) st = tn_fail(err, TN_E_ARG, "%s: has no questions", path);
  if (st != TN_OK) tn_tasks_free(out);
  return st;
}

/* Tokens of context and choice together; those that the context without its trailing spaces has alone are the prompt. */
static tn_status score_choice(const tn_subject *s, const tn_task *t, const char *choice, double *loglik, tn_err *err)
{
  const tn_tokenizer *tok = s->setup->tokenizer;
  int32_t *alone = NULL, *ids = NULL;
  size_t n_alone = 0, n = 0, len = strlen(t->context);
  tn_answer r;
  char *whole = tn_asprintf("%s%s", t->context, choice);
  if (!whole) return tn_fail(err, TN_E_NOMEM, "no memory for a question");
  while (len > 0 && is_space(t->context[len - 1])) len--;
  tn_status st = tn_tokenize(tok, t->context, len, TN_TOKENIZE_ADD_SPECIAL, &alone, &n_alone, err);
  if (st == TN_OK) st = tn_tokenize(tok, whole, strlen(whole), TN_TOKENIZE_ADD_SPECIAL, &ids, &n, err);
  if (st == TN_OK && tn_tokenizer_adds_eos(tok)) n -= n > 0, n_alone -= n_alone > 0;
  if (st == TN_OK && (n_alone < 1 || n <= n_alone))
    st = tn_fail(err, TN_E_ARG, "the choice '%.40s' has no tokens of its own behind '%.40s'", choice, t->context);
  if (st == TN_OK) st = tn_answer_score(s, ids, (int64_t)n, (int64_t)n_alone, &r, err);
  if (st == TN_OK) *loglik = r.loglik;
  free(whole);
  free(alone);
  free(ids);
  return st;
}

/* Unicode characters. */
static double length_of(const char *text)
{
  int64_t n = 0;
  for (; *text; text++) n += ((unsigned char)*text & 0xC0) != 0x80;
  return n > 0 ? (double)n : 1;
}

tn_status tn_task_score(const tn_subject *s, const tn_task *t, tn_task_result *out, tn_err *err)
{
  tn_status st = TN_OK;
  double best = 0, best_norm = 0;
  *out = (tn_task_result){0};
  for (uint32_t i = 0; st == TN_OK && i < t->n_choices; i++) {
    const char *text = t->choices[i] + (t->choices[i][0] == ' ');
    st = score_choice(s, t, t->choices[i], &out->loglik[i], err);
    double norm = out->loglik[i] / length_of(text);
    if (i == 0 || out->loglik[i] > best) best = out->loglik[i], out->best = i;
    if (i == 0 || norm > best_norm) best_norm = norm, out->best_norm = i;
  }
  out->right = out->best == t->gold;
  out->right_norm = out->best_norm == t->gold;
  return st;
}
