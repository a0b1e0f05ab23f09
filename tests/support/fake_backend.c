/* fake_backend: see fake_backend.h. */
#include "fake_backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

tn_inst *fake_inst(fake_backend *b) { return (tn_inst *)(void *)b; }

static fake_backend *self(tn_inst *in) { return (fake_backend *)(void *)in; }

/* A copy of p, NULL for NULL; *ok is false without memory. */
static void *copy(const void *p, size_t n, bool *ok)
{
  void *q = p ? malloc(n ? n : 1) : NULL;
  if (q) memcpy(q, p, n);
  *ok = *ok && (q || !p);
  return q;
}

static tn_status weight_load(tn_inst *in, const tn_weight_src *src, tn_tensor *out, tn_err *err)
{
  fake_backend *b = self(in);
  if (b->fail_at && b->n + 1 == b->fail_at) {
    snprintf(err->msg, sizeof err->msg, "the device is full");
    return TN_E_DEVICE;
  }
  if ((src->flags & TN_WF_KEPT) && !b->has_kept) return TN_E_STATE;
  fake_weight *w = &b->w[b->n++];
  const tn_layout *l = src->layout;
  bool ok = true;
  size_t n = (size_t)src->n, k = (size_t)src->k, groups = 0, supers = 0;
  if (l) groups = l->group ? k / l->group : 1;
  if (l) supers = l->super ? groups / l->super : 0;
  snprintf(w->name, sizeof w->name, "%s", src->name);
  w->src = *src;
  snprintf(w->key, sizeof w->key, "%s", src->key ? src->key : "");
  w->src.name = w->name;
  w->src.key = NULL;
  w->given = src->data;
  w->src.data = copy(src->data, src->bytes, &ok);
  w->src.codes = copy(src->codes, n * k, &ok);
  w->src.scale = copy(src->scale, n * groups * sizeof(float), &ok);
  w->src.offset = copy(src->offset, n * groups * sizeof(float), &ok);
  w->src.sub_scale = copy(src->sub_scale, n * groups, &ok);
  w->src.sub_offset = copy(src->sub_offset, n * groups, &ok);
  w->src.d = copy(src->d, n * supers * sizeof(float), &ok);
  w->src.dmin = copy(src->dmin, n * supers * sizeof(float), &ok);
  if (!ok) return TN_E_NOMEM;
  *out = (tn_tensor){.struct_size = sizeof *out, .dtype = src->dtype, .ne = {src->k, src->n, 1, 1}, .layout = l};
  out->offset = b->n; /* which one, plus 1 */
  b->live++;
  return TN_OK;
}

static void weight_free(tn_inst *in, tn_tensor *t)
{
  (void)t;
  self(in)->live--;
}

const tn_backend_v1 fake_backend_v1 = {
    .struct_size = sizeof fake_backend_v1, .weight_load = weight_load, .weight_free = weight_free};

const fake_weight *fake_find(const fake_backend *b, const char *name)
{
  for (uint32_t i = 0; i < b->n; i++)
    if (strcmp(b->w[i].name, name) == 0) return &b->w[i];
  return NULL;
}

void fake_reset(fake_backend *b)
{
  for (uint32_t i = 0; i < b->n; i++) {
    const tn_weight_src *s = &b->w[i].src;
    free((void *)s->data);
    free((void *)s->codes);
    free((void *)s->scale);
    free((void *)s->offset);
    free((void *)s->sub_scale);
    free((void *)s->sub_offset);
    free((void *)s->d);
    free((void *)s->dmin);
  }
  *b = (fake_backend){0};
}
