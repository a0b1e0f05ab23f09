/* judge: from what runs gave to what a cell says. See matrix.h. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "matrix/matrix_int.h"

/* Two approximations together: the root of the KLD behaves as a distance, so that of the pair may be the sum of both;
 * SLACK times as much, and OFFSET, is room for what they do to each other. */
#define SLACK 2.0
#define OFFSET 0.1

static void say(tn_matrix_cell *c, uint32_t kind, const char *fmt, ...) TN_PRINTF(3, 4);
static void say(tn_matrix_cell *c, uint32_t kind, const char *fmt, ...)
{
  va_list ap;
  va_start(ap, fmt);
  c->kind = kind;
  vsnprintf(c->text, sizeof c->text, fmt, ap);
  va_end(ap);
}

static bool same(const tn_matrix_outcome *a, const tn_matrix_outcome *b)
{
  return a->scored == b->scored && a->generated == b->generated;
}

/* What needs no comparison: refusals, failures, parts that took no part. True: the cell is settled. */
static bool settled(const tn_matrix *m, const tn_matrix_outcome *o, tn_matrix_cell *c)
{
  const tn_matrix_part *parts[] = {&m->parts[c->a], &m->parts[c->b]};
  size_t n = c->a == c->b ? 1 : 2;
  snprintf(c->fingerprint, sizeof c->fingerprint, "%s", o->fingerprint);
  memcpy(c->engaged, o->engaged, sizeof c->engaged);
  c->kld = o->kld;
  c->same_as = UINT32_MAX;
  for (size_t i = 0; i < n; i++)
    if (parts[i]->problem)
      return say(c, TN_CELL_FAIL, "%s does not load: %.300s", parts[i]->name, parts[i]->problem), true;
  if (o->state == TN_RUN_REFUSED) return say(c, TN_CELL_REFUSED, "%s", o->text), true;
  if (o->state != TN_RUN_DONE) return say(c, TN_CELL_FAIL, "%s", o->text), true;
  for (size_t i = 0; i < n; i++)
    if (o->engaged[i] == 0)
      return say(c, TN_CELL_FAIL, "%s = %s took no part: its counters stayed at 0", parts[i]->key, parts[i]->name),
             true;
  if (isnan(o->kld)) return say(c, TN_CELL_FAIL, "some logits are no numbers"), true;
  return false;
}

void tn_matrix_judge_alone(const tn_matrix *m, const tn_matrix_outcome *o, const tn_matrix_outcome *reference,
                           tn_matrix_cell *c)
{
  const tn_matrix_part *p = &m->parts[c->a];
  if (settled(m, o, c)) return;
  if (p->exact && same(o, reference))
    say(c, TN_CELL_EQUAL, "%s", "");
  else if (p->exact)
    say(c, TN_CELL_FAIL, "%s claims to change nothing, but the result is another one (KLD %s)", p->name,
        tn_kld_class(o->kld));
  else if (same(o, reference))
    say(c, TN_CELL_FAIL, "%s changed nothing on this text", p->name);
  else
    say(c, TN_CELL_KLD, "%s", "");
}

/* One of the two claims to change nothing: the result has to be that of the other alone. */
static void judge_exact(const tn_matrix *m, const tn_matrix_outcome *o, const tn_matrix_outcome *other, uint32_t exact,
                        uint32_t rest, tn_matrix_cell *c)
{
  if (same(o, other)) {
    c->same_as = rest;
    say(c, TN_CELL_KLD, "%s", "");
    return;
  }
  say(c, TN_CELL_FAIL, "%s claims to change nothing, but with %s the result is not that of %s alone",
      m->parts[exact].name, m->parts[rest].name, m->parts[rest].name);
}

void tn_matrix_judge_pair(const tn_matrix *m, const tn_matrix_outcome *o, const tn_matrix_outcome *reference,
                          const tn_matrix_outcome *const alone[2], tn_matrix_cell *c)
{
  const tn_matrix_part *a = &m->parts[c->a], *b = &m->parts[c->b];
  if (settled(m, o, c)) return;
  for (int i = 0; i < 2; i++)
    if (alone[i]->state != TN_RUN_DONE) {
      say(c, TN_CELL_FAIL, "%s runs with %s, but alone it does not: %.200s", i ? b->name : a->name,
          i ? a->name : b->name, alone[i]->text);
      return;
    }
  double most = SLACK * (sqrt(fmax(alone[0]->kld, 0)) + sqrt(fmax(alone[1]->kld, 0))) + OFFSET;
  if (a->exact && b->exact && same(o, reference))
    say(c, TN_CELL_EQUAL, "%s", "");
  else if (a->exact && b->exact)
    say(c, TN_CELL_FAIL, "%s and %s claim to change nothing, but the result is another one (KLD %s)", a->name, b->name,
        tn_kld_class(o->kld));
  else if (a->exact)
    judge_exact(m, o, alone[1], c->a, c->b, c);
  else if (b->exact)
    judge_exact(m, o, alone[0], c->b, c->a, c);
  else if (sqrt(fmax(o->kld, 0)) <= most)
    say(c, TN_CELL_KLD, "%s", "");
  else
    say(c, TN_CELL_FAIL, "KLD %s together, but %s and %s alone", tn_kld_class(o->kld), tn_kld_class(alone[0]->kld),
        tn_kld_class(alone[1]->kld));
}
