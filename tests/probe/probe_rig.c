/* probe_rig: see probe_rig.h. */
#include "probe_rig.h"

#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void probe_set(probe_sets *s, const char *fmt, ...)
{
  va_list ap;
  cr_assert(s->n + 1 < TN_ARRAY_LEN(s->at));
  va_start(ap, fmt);
  int n = vsnprintf(s->text[s->n], sizeof s->text[0], fmt, ap);
  va_end(ap);
  cr_assert(n > 0 && (size_t)n < sizeof s->text[0]);
  s->n++;
}

void probe_base(probe_sets *s)
{
  *s = (probe_sets){.n = 0};
  probe_set(s, "compose.backend=ref");
  probe_set(s, "engine.activations=f32");
  probe_set(s, "engine.threads=1");
}

void probe_base_f32(probe_sets *s)
{
  probe_base(s);
  probe_set(s, "compose.kv=probe");
  probe_set(s, "quantizer.probe@kv.kv=f32");
}

static void link_texts(probe_sets *s)
{
  for (uint32_t i = 0; i < s->n; i++) s->at[i] = s->text[i];
  s->at[s->n] = NULL;
}

rig *probe_open(const char *model, probe_sets *s)
{
  link_texts(s);
  return rig_open(model, s->at);
}

rig *probe_open_spec(const tiny_spec *spec, probe_sets *s)
{
  char path[TINY_PATH];
  gguf_writer *w = tiny_writer(spec);
  tiny_put_tokenizer(w, spec->vocab);
  tiny_write(w, path);
  rig *r = probe_open(path, s);
  unlink(path);
  return r;
}

void *probe_record(const tn_instance *in)
{
  const void *p = in->desc && in->desc->ext ? in->desc->ext(in->inst, PROBE_EXT) : NULL;
  return (void *)(uintptr_t)p;
}

void probe_step(rig *r)
{
  tn_err err = tn_err_init();
  tn_status st = tn_engine_step(r->s.engine, &err);
  cr_assert(st == TN_OK, "step: %s", err.msg);
  cr_assert(tn_engine_check(r->s.engine, &err), "%s", err.msg);
}

static int ascending(const void *a, const void *b)
{
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return x < y ? -1 : x > y;
}

int64_t probe_positions(const rig *r, const tn_seq *s, uint32_t group, int64_t next, int64_t *out)
{
  const tn_kv_table *t = &s->kv->t[group];
  const tn_group *g = &r->s.engine->groups.g[group];
  int64_t n = 0;
  for (int64_t i = 0; i < t->n; i++) {
    bool hidden = t->text_pos[i] < 0;
    for (uint32_t k = 0; k < g->n_rules; k++)
      hidden = hidden || (t->text_pos[i] >= g->rules[k].sinks && next - t->text_pos[i] >= g->rules[k].hi);
    if (!hidden) out[n++] = t->text_pos[i];
  }
  qsort(out, (size_t)n, sizeof *out, ascending);
  return n;
}

rig *probe_run(const char *model, probe_sets *s, const int32_t *prompt, int64_t n, int64_t n_new)
{
  rig *r = probe_open(model, s);
  if (n_new > 0)
    rig_generate(r, prompt, n, n_new);
  else
    rig_score(r, prompt, n);
  rig_run(r, 1);
  return r;
}

void probe_equal(const char *what, const rig *a, const rig *b)
{
  cr_assert_eq(a->n, b->n);
  for (uint32_t i = 0; i < a->n; i++) {
    cr_assert(a->r[i].why != TN_FINISH_ERROR && b->r[i].why != TN_FINISH_ERROR, "%s: result %u: %s%s", what, i,
              a->r[i].msg, b->r[i].msg);
    cr_assert(rig_same(a, i, b, i), "%s: result %u differs", what, i);
  }
}
