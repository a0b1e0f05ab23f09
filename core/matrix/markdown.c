/* markdown: the matrix as a file that people read and that a test compares. Nothing in it depends on the machine. */
#include <string.h>

#include "matrix/matrix_int.h"

const char *tn_cell_kind_name(uint32_t kind)
{
  static const char *const names[TN_N_CELL_KINDS] = {"", "equal", "kld", "refused", "fail"};
  return kind < TN_N_CELL_KINDS ? names[kind] : "";
}

const char *tn_kld_class(double kld)
{
  static const struct {
    double below;
    const char *name;
  } classes[] = {{1e-4, "<0.0001"}, {1e-3, "<0.001"}, {1e-2, "<0.01"}, {1e-1, "<0.1"}, {1, "<1"}};
  for (size_t i = 0; i < TN_ARRAY_LEN(classes); i++)
    if (kld < classes[i].below) return classes[i].name;
  return ">=1";
}

/* Where a setting stands depends on the machine's folders, and what else would do on the other plugins: both are left
 * out of a reason. */
static void add_reason(tn_text *t, const char *text, const char *const *models, size_t n_models)
{
  const char *end = strstr(text, "; nearest working change");
  if (!end) end = strstr(text, "; no change of up to");
  if (!end) end = text + strlen(text);
  for (const char *p = text; p < end;) {
    size_t n = *p == ' ' && p[1] == '(' ? strcspn(p, ")") : 0;
    bool where = n > 0 && p[n] == ')' &&
                 ((p[n - 1] >= '0' && p[n - 1] <= '9' && memchr(p, ':', n)) || (n == 8 && !memcmp(p, " (matrix", 8)) ||
                  (n == 9 && !memcmp(p, " (default", 9)));
    size_t path = 0;
    for (size_t i = 0; i < n_models && !path; i++) {
      const char *slash = strrchr(models[i], '/');
      size_t folder = slash ? (size_t)(slash + 1 - models[i]) : 0;
      if (folder && !strncmp(p, models[i], strlen(models[i]))) path = folder;
    }
    if (where)
      p += n + 1;
    else if (path)
      p += path;
    else
      tn_text_add(t, *p == '\n' || *p == '|' ? " " : p, 1), p++;
  }
}

/* A cell's words: "equal", "<0.01", "<0.01 =", "refused", "FAIL". */
static void add_cell(tn_text *t, const tn_matrix_cell *c)
{
  if (c->kind == TN_CELL_KLD)
    tn_text_addf(t, "%s%s", tn_kld_class(c->kld), c->same_as != UINT32_MAX ? " =" : "");
  else
    tn_text_addf(t, "%s", c->kind == TN_CELL_FAIL ? "**FAIL**" : tn_cell_kind_name(c->kind));
}

static const tn_matrix_cell *cell_of(const tn_matrix *m, size_t a, size_t b)
{
  for (size_t i = 0; i < m->n_cells; i++)
    if (m->cells[i].a == a && m->cells[i].b == b) return &m->cells[i];
  return NULL;
}

static const char *base_name(const char *path)
{
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

static void add_alone(const tn_matrix *m, const tn_matrix_cfg *cfg, tn_text *t)
{
  tn_text_addf(t, "## Each part alone\n\n| key | plugin | claims | model | result |\n|---|---|---|---|---|\n");
  for (size_t i = 0; i < m->n_cells && m->cells[i].a == m->cells[i].b; i++) {
    const tn_matrix_cell *c = &m->cells[i];
    const tn_matrix_part *p = &m->parts[c->a];
    tn_text_addf(t, "| %s | %s | %s | %s | ", p->key, p->name, p->exact ? "exact" : "approximate",
                 base_name(cfg->models[c->model]));
    add_cell(t, c);
    if (c->text[0]) tn_text_addf(t, ": ");
    add_reason(t, c->text, cfg->models, cfg->n_models);
    tn_text_addf(t, " |\n");
  }
}

/* End of the run of parts that share the key of part i. */
static size_t end_of_key(const tn_matrix *m, size_t i)
{
  size_t end = i;
  while (end < m->n_parts && strcmp(m->parts[end].key, m->parts[i].key) == 0) end++;
  return end;
}

static bool any_cell(const tn_matrix *m, size_t a0, size_t a1, size_t b0, size_t b1)
{
  for (size_t i = 0; i < m->n_cells; i++)
    if (m->cells[i].a >= a0 && m->cells[i].a < a1 && m->cells[i].b >= b0 && m->cells[i].b < b1) return true;
  return false;
}

/* Parts [a0, a1) down, [b0, b1) across; below, why cells were refused or failed. */
static void add_table(const tn_matrix *m, const tn_matrix_cfg *cfg, size_t a0, size_t a1, size_t b0, size_t b1,
                      tn_text *t)
{
  tn_text_addf(t, "\n## %s and %s\n\n| |", m->parts[a0].key, m->parts[b0].key);
  for (size_t b = b0; b < b1; b++) tn_text_addf(t, " %s |", m->parts[b].name);
  tn_text_addf(t, "\n|---|");
  for (size_t b = b0; b < b1; b++) tn_text_addf(t, "---|");
  for (size_t a = a0; a < a1; a++) {
    tn_text_addf(t, "\n| %s |", m->parts[a].name);
    for (size_t b = b0; b < b1; b++) {
      const tn_matrix_cell *c = cell_of(m, a, b);
      tn_text_addf(t, " ");
      if (c) add_cell(t, c);
      tn_text_addf(t, c ? " |" : "- |");
    }
  }
  tn_text_addf(t, "\n");
  for (size_t i = 0; i < m->n_cells; i++) {
    const tn_matrix_cell *c = &m->cells[i];
    bool here = c->a >= a0 && c->a < a1 && c->b >= b0 && c->b < b1;
    if (!here || !c->text[0]) continue;
    tn_text_addf(t, "\n- %s, %s: ", m->parts[c->a].name, m->parts[c->b].name);
    add_reason(t, c->text, cfg->models, cfg->n_models);
  }
  tn_text_addf(t, "\n");
}

void tn_matrix_markdown(const tn_matrix *m, const tn_matrix_cfg *cfg, tn_text *t)
{
  tn_text_addf(
      t,
      "# Which plugins work together\n\n"
      "Written by `tenon plugins matrix`, which runs every pair. Each run takes the default composition, puts the\n"
      "pair into it and reads a text of %d tokens, the second half of it scored, while three sequences generate.\n"
      "A part's options counted in tokens are made smaller, the largest %d, so that it changes state on that text;\n"
      "models need not be trained for a pattern.\n\n"
      "| a cell says | |\n|---|---|\n"
      "| equal | both claim to change nothing, and every logit and token is bitwise that of the default |\n"
      "| <0.01 | mean KL divergence against the default composition, in nats, as a class |\n"
      "| <0.01 = | the same, and bitwise the result of the approximate one alone: the other changed nothing |\n"
      "| refused | the composition says why it cannot work; the reason stands below the table |\n"
      "| **FAIL** | none of that; the reason stands below the table |\n\n"
      "With random weights a class says that a pair runs and how far it strays, not how good it is.\n"
      "In every cell that ran, the counters of both parts were above zero.\n\n"
      "%zu parts; %zu cells equal, %zu with a KLD, %zu refused, %zu failed.\n\n",
      TN_MATRIX_TEXT, TN_MATRIX_TOKENS, m->n_parts, m->counts[TN_CELL_EQUAL], m->counts[TN_CELL_KLD],
      m->counts[TN_CELL_REFUSED], m->counts[TN_CELL_FAIL]);
  add_alone(m, cfg, t);
  for (size_t a = 0; a < m->n_parts; a = end_of_key(m, a))
    for (size_t b = end_of_key(m, a); b < m->n_parts; b = end_of_key(m, b))
      if (any_cell(m, a, end_of_key(m, a), b, end_of_key(m, b)))
        add_table(m, cfg, a, end_of_key(m, a), b, end_of_key(m, b), t);
}
