/* golden_logits: see golden_logits.h. */
#include "golden_logits.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *golden_path(const char *name, const char *suffix, char *buf, uint32_t n)
{
  const char *root = getenv("TN_SOURCE_DIR");
  snprintf(buf, n, "%s/tests/data/tiny/%s%s", root ? root : TN_SOURCE_DIR, name, suffix);
  return buf;
}

static bool read_prompt(FILE *f, uint32_t n_vocab, golden_prompt *p)
{
  if (fread(&p->n, sizeof p->n, 1, f) != 1 || p->n == 0 || p->n > 4096) return false;
  size_t logits = (size_t)p->n * n_vocab;
  p->ids = malloc(p->n * sizeof *p->ids);
  p->logits = malloc(logits * sizeof *p->logits);
  return p->ids && p->logits && fread(p->ids, sizeof *p->ids, p->n, f) == p->n &&
         fread(p->logits, sizeof *p->logits, logits, f) == logits;
}

golden_logits *golden_logits_read(const char *name)
{
  char path[512], magic[4];
  FILE *f = fopen(golden_path(name, ".golden", path, sizeof path), "rb");
  golden_logits *g = f ? calloc(1, sizeof *g) : NULL;
  bool ok = g && fread(magic, sizeof magic, 1, f) == 1 && memcmp(magic, "TNG1", 4) == 0;
  ok = ok && fread(&g->n_prompts, 4, 1, f) == 1 && fread(&g->n_vocab, 4, 1, f) == 1;
  ok = ok && g->n_prompts <= 64 && g->n_vocab > 0 && g->n_vocab <= 1 << 20;
  if (ok) g->prompts = calloc(g->n_prompts, sizeof *g->prompts);
  ok = ok && g->prompts;
  for (uint32_t i = 0; ok && i < g->n_prompts; i++) ok = read_prompt(f, g->n_vocab, &g->prompts[i]);
  if (f) fclose(f);
  if (ok) return g;
  golden_logits_free(g);
  return NULL;
}

void golden_logits_free(golden_logits *g)
{
  if (!g) return;
  for (uint32_t i = 0; g->prompts && i < g->n_prompts; i++) {
    free(g->prompts[i].ids);
    free(g->prompts[i].logits);
  }
  free(g->prompts);
  free(g);
}
