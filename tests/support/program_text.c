/* program_text: see program_text.h. */
#include "program_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const kinds[] = {"?",    "embed",    "norm",       "linear",    "segsum", "add",   "glu",
                                    "rope", "kv_write", "attend",     "state_mix", "pick",   "scale", "softcap",
                                    "tap",  "observe",  "collective", "merge",     "ext"};

static const char *act_name(const tn_program *g, int32_t i) { return i < 0 ? "-" : g->acts[i]->name; }

static void heads(FILE *f, const tn_op_attend *a)
{
  fprintf(f, " heads=%u+%u kv_heads=%u+%u dh=%u", a->head0, a->n_heads, a->kv_head0, a->n_kv_heads, a->d_head);
}

static void attend(FILE *f, const tn_op_attend *a)
{
  heads(f, a);
  fprintf(f, " scale=%.6g", (double)a->scale);
  if (a->softcap > 0) fprintf(f, " softcap=%g", (double)a->softcap);
  if (a->n_masks) fprintf(f, " masks=%u+%u", a->mask, a->n_masks);
  if (a->tiles) fprintf(f, " tiles=%u", a->tiles);
  if (a->rope_dims) fprintf(f, " raw(table=%u style=%u dims=%u)", a->rope, a->rope_style, a->rope_dims);
  if (a->n_sinks) fprintf(f, " sinks=%u", a->n_sinks);
}

static void params(FILE *f, const tn_op *op)
{
  switch (op->kind) {
    case TN_OP_EMBED: fprintf(f, " scale=%.6g", op->p.embed.scale); break;
    case TN_OP_NORM: fprintf(f, " span=%" PRId64 " eps=%.3g", op->p.norm.span, op->p.norm.eps); break;
    case TN_OP_LINEAR:
    case TN_OP_SEGSUM:
      fprintf(f, " n=%" PRId64 " k=%" PRId64 " segments=%u", op->p.linear.n, op->p.linear.k, op->p.linear.segments);
      break;
    case TN_OP_GLU: fprintf(f, " act=%u", op->p.glu.act); break;
    case TN_OP_ROPE:
      fprintf(f, " heads=%u dh=%u dims=%u style=%u table=%u sink=%u", op->p.rope.n_heads, op->p.rope.d_head,
              op->p.rope.dims, op->p.rope.style, op->p.rope.table, op->p.rope.sink);
      break;
    case TN_OP_KV_WRITE: heads(f, &op->p.attend); break;
    case TN_OP_ATTEND: attend(f, &op->p.attend); break;
    case TN_OP_STATE_MIX: heads(f, &op->p.attend), fprintf(f, " state=%u", op->p.attend.state); break;
    case TN_OP_SOFTCAP: fprintf(f, " cap=%g", op->p.scale.x); break;
    case TN_OP_TAP:
    case TN_OP_OBSERVE: fprintf(f, " index=%u", op->p.tap.index); break;
    case TN_OP_COLLECTIVE:
      fprintf(f, " kind=%u peer=%u tag=%" PRIu64, op->p.coll.kind, op->p.coll.peer, op->p.coll.tag);
      break;
    default: break;
  }
}

static void record(FILE *f, const tn_built *b, const tn_op *op)
{
  const tn_program *g = &b->program;
  fprintf(f, "%-26s %-10s %s <-", op->name, kinds[op->kind], act_name(g, op->out[0]));
  for (int i = 0; i < 4 && op->in[i] >= 0; i++) fprintf(f, " %s", act_name(g, op->in[i]));
  if (op->out[1] >= 0) fprintf(f, " -> %s", act_name(g, op->out[1]));
  for (int i = 0; i < 2; i++)
    if (op->w[i] >= 0) fprintf(f, " %s", b->needs[op->w[i]].name);
  params(f, op);
  if (op->flags) fprintf(f, " flags=%u", op->flags);
  fprintf(f, "\n");
}

char *program_text(const tn_built *b)
{
  const tn_program *g = &b->program;
  char *text = NULL;
  size_t n = 0;
  FILE *f = open_memstream(&text, &n);
  if (!f) exit(1);
  for (uint32_t i = 0; i < g->n_ops; i++) record(f, b, g->ops[i]);
  for (uint32_t i = 0; i < g->n_masks; i++) {
    const tn_mask *m = &g->masks[i];
    fprintf(f, "mask %u lo=%" PRId64, i, m->lo);
    if (m->hi < TN_POS_INF) fprintf(f, " hi=%" PRId64, m->hi);
    fprintf(f, " stride=%" PRId64 " residue=%" PRId64 " sinks=%" PRId64 "\n", m->stride, m->residue, m->sinks);
  }
  for (uint32_t i = 0; i < g->n_acts; i++)
    fprintf(f, "act %s [%s][%" PRId64 "]\n", g->acts[i]->name, g->acts[i]->rows == TN_ROWS_OUT ? "out" : "all",
            g->acts[i]->cols);
  for (uint32_t i = 0; i < g->n_weights; i++) {
    const tn_weight_need *w = &b->needs[i];
    fprintf(f,
            "weight %s role=%u [%" PRId64 "][%" PRId64 "] rows=%" PRId64 "+%" PRId64 " cols=%" PRId64 "+%" PRId64 "\n",
            w->name, w->role, w->n, w->k, w->shard.row0, w->shard.n_rows, w->shard.col0, w->shard.n_cols);
  }
  fprintf(f, "logits %s\n", g->acts[g->logits]->name);
  if (fclose(f)) exit(1);
  return text;
}

static char *read_all(const char *path)
{
  FILE *f = fopen(path, "rb");
  char *text = NULL, buf[4096];
  size_t n = 0, got;
  if (!f) return NULL;
  while ((got = fread(buf, 1, sizeof buf, f)) > 0) {
    char *more = realloc(text, n + got + 1);
    if (!more) exit(1);
    text = more;
    memcpy(text + n, buf, got);
    n += got;
    text[n] = '\0';
  }
  fclose(f);
  return text;
}

static char *message(const char *fmt, const char *path, size_t line, const char *want, const char *got)
{
  char *msg = malloc(1024);
  if (!msg) exit(1);
  snprintf(msg, 1024, fmt, path, line, (int)strcspn(want, "\n"), want, (int)strcspn(got, "\n"), got);
  return msg;
}

char *program_golden(const tn_built *b, const char *name)
{
  const char *root = getenv("TN_SOURCE_DIR");
  char path[512], *got = program_text(b), *want, *msg = NULL;
  snprintf(path, sizeof path, "%s/tests/model/%s.golden", root ? root : TN_SOURCE_DIR, name);
  if (getenv("TN_GOLDEN_UPDATE")) {
    FILE *f = fopen(path, "wb");
    if (!f || fputs(got, f) < 0 || fclose(f)) exit(1);
  }
  want = read_all(path);
  const char *w = want ? want : "", *g = got;
  for (size_t line = 1; !msg && (*w || *g); line++) {
    size_t nw = strcspn(w, "\n"), ng = strcspn(g, "\n");
    if (nw != ng || memcmp(w, g, nw) != 0) msg = message("%s:%zu: want '%.*s', got '%.*s'", path, line, w, g);
    w += nw + (w[nw] == '\n');
    g += ng + (g[ng] == '\n');
  }
  free(want);
  free(got);
  return msg;
}
