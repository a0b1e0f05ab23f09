/* ab_open: from files and settings to engines that may be compared. See ab_int.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/ab_int.h"
#include "sha256.h"

static void on_log(void *ctx, int32_t level, const char *msg)
{
  const char *name = ctx;
  if (level >= TN_LOG_WARN)
    fprintf(stderr, "tenon ab: %s: %s: %s\n", name, level == TN_LOG_WARN ? "warning" : "error", msg);
}

static bool on_progress(void *ctx, double done)
{
  (void)ctx, (void)done;
  return !tn_cli_interrupted();
}

static void add(ab_setup *s, const char *set, const char *from)
{
  s->from[s->args.n_sets] = from;
  s->sets[s->args.n_sets++] = set;
}

void ab_setup_of(const ab_bench *b, uint32_t i, ab_setup *out)
{
  const ab_spec *spec = &b->a->spec[i];
  const tn_engine_args *common = &b->a->engine;
  *out = (ab_setup){.args = {.conf = &spec->conf,
                             .n_conf = spec->conf != NULL,
                             .model = common->model,
                             .conf_dir = b->conf_dir,
                             .loader = b->loader,
                             .progress = on_progress}};
  out->args.sets = out->sets;
  out->args.sets_from = out->from;
  /* One sequence at a time, of a known length: no engine takes memory for more. What a variant says itself stands. */
  int64_t need = b->prompt[b->longest].n + b->e.n_gen + 128;
  if (b->a->text && b->a->chunk > need) need = b->a->chunk;
  snprintf(out->ctx, sizeof out->ctx, "engine.ctx=%lld", (long long)need);
  if (b->prompt[b->longest].n > 0 && !b->own_ctx[i]) add(out, out->ctx, "the prompts' length");
  if (!b->own_seqs[i]) add(out, "engine.max_seqs=1", "one prompt at a time");
  for (size_t k = 0; k < common->n_sets; k++) add(out, common->sets[k], common->from[k]);
  for (size_t k = 0; k < spec->n_sets; k++) add(out, spec->sets[k], NULL);
}

static tn_status refuse(tn_ab_exp *e, const char *title, const tn_err *err)
{
  if (e->n_refused == TN_AB_MAX_REFUSED) return TN_E_NOMEM;
  tn_ab_refused *r = &e->refused[e->n_refused++];
  r->title = tn_strdup(title);
  r->reason = tn_strdup(err->msg);
  return r->title && r->reason ? TN_OK : TN_E_NOMEM;
}

/* One model for all: the first variant's. */
static tn_status same_model(ab_bench *b, uint32_t i, const tn_setup *s, tn_err *err)
{
  tn_ab_exp *e = &b->e;
  char id[65];
  tn_compose_model m = tn_compose_model_of(s->model);
  tn_sha256_hex(m.identity, id);
  if (!e->model) {
    e->model = tn_strdup(tn_gguf_path(s->model->gguf));
    e->model_id = tn_strdup(id);
    return e->model && e->model_id ? TN_OK : tn_fail(err, TN_E_NOMEM, "no memory for the model's name");
  }
  if (!strcmp(e->model_id, id)) return TN_OK;
  return tn_fail(err, TN_E_ARG,
                 "%s has the model %s, %s the model %s: what differs would be the models; give one with -m",
                 b->a->spec[0].title, e->model, b->a->spec[i].title, tn_gguf_path(s->model->gguf));
}

static tn_status tokenize(ab_bench *b, const tn_setup *s, tn_err *err)
{
  for (uint32_t p = 0; p < b->e.n_prompts; p++) {
    size_t n;
    const char *text = b->e.prompt[p].text;
    tn_status st = tn_tokenize(s->tokenizer, text, strlen(text), TN_TOKENIZE_ADD_SPECIAL, &b->prompt[p].at, &n, err);
    if (st == TN_OK && n == 0) st = tn_fail(err, TN_E_ARG, "prompt %u has no tokens", p + 1);
    if (st != TN_OK) return st;
    b->prompt[p].n = b->e.prompt[p].n_tokens = (int64_t)n;
    if (b->prompt[p].n > b->prompt[b->longest].n) b->longest = p;
  }
  return TN_OK;
}

/* All chunks that the text has; how many are scored is decided when the variants are counted. */
static tn_status cut_text(ab_bench *b, const tn_setup *s, tn_err *err)
{
  char *text = NULL;
  size_t n;
  if (!b->a->text) return TN_OK;
  tn_status st = tn_file_read(b->a->text, (size_t)1 << 31, &text, &n, err);
  if (st != TN_OK) return st;
  st = tn_chunks_cut(s->tokenizer, text, n, b->a->chunk, 0, 0, &b->chunks, err);
  free(text);
  if (st != TN_OK) {
    tn_err_prefix(err, "--text %s", b->a->text);
    return st;
  }
  b->e.text = tn_strdup(b->a->text);
  return b->e.text ? TN_OK : tn_fail(err, TN_E_NOMEM, "no memory for the text's name");
}

/* Variant k of the experiment from an open composition. */
static tn_status describe(ab_bench *b, uint32_t i, uint32_t k, const tn_setup *s, tn_err *err)
{
  tn_ab_variant *v = &b->e.variant[k];
  char print[TN_FINGERPRINT_HEX + 1];
  tn_composition_short(s->composition, print);
  v->name = k < 26 ? tn_asprintf("%c", 'A' + k) : tn_asprintf("%c%c", 'A' + k / 26 - 1, 'A' + k % 26);
  v->title = tn_strdup(b->a->spec[i].title);
  v->fingerprint = tn_strdup(print);
  v->composition = tn_composition_json(s->composition);
  b->own_ctx[k] = tn_config_get(s->config, "engine", "ctx") != NULL;
  b->own_seqs[k] = tn_config_get(s->config, "engine", "max_seqs") != NULL;
  if (!v->name || !v->title || !v->fingerprint || !v->composition)
    return tn_fail(err, TN_E_NOMEM, "no memory for a variant");
  tn_status st = k == 0 ? tokenize(b, s, err) : TN_OK;
  return k == 0 && st == TN_OK ? cut_text(b, s, err) : st;
}

/* What does not stand in a fingerprint may still differ: threads, a memory plugin's speed. */
static void warn_equals(ab_bench *b, const tn_setup *open, uint32_t n)
{
  for (uint32_t x = 0; x < n; x++)
    for (uint32_t y = x + 1; y < n; y++) {
      const tn_ab_variant *v = &b->e.variant[x], *w = &b->e.variant[y];
      if (strcmp(v->fingerprint, w->fingerprint) != 0) continue;
      char *diff = tn_composition_diff(open[x].composition, open[y].composition);
      if (diff && !*diff)
        tn_ab_exp_warn(&b->e, "%s (%s) and %s (%s) are the same composition: this is an A/A run, and shows noise",
                       v->name, v->title, w->name, w->title);
      else
        tn_ab_exp_warn(&b->e, "%s (%s) and %s (%s) compute the same (fingerprint %s): only speed and memory can differ",
                       v->name, v->title, w->name, w->title, v->fingerprint);
      free(diff);
    }
}

/* Opens everything of spec i but the engine. */
static tn_status compose(const ab_bench *b, uint32_t i, tn_setup *out, tn_err *err)
{
  ab_setup s;
  ab_bench plain = {.a = b->a, .loader = b->loader, .conf_dir = b->conf_dir};
  plain.own_seqs[i] = true;
  ab_setup_of(&plain, i, &s);
  s.args.no_engine = true;
  s.args.log = on_log;
  s.args.log_ctx = b->a->spec[i].title;
  return tn_setup_open(&s.args, out, err);
}

tn_status ab_resolve(ab_bench *b, tn_err *err)
{
  ab_args *a = (ab_args *)(uintptr_t)b->a;
  tn_setup *open = tn_zalloc(a->n_specs, sizeof *open);
  uint32_t n = 0;
  tn_loader_cfg cfg = {.log = on_log, .ctx = (void *)(uintptr_t) "plugins"};
  tn_status st = open ? tn_loader_new(&cfg, &b->loader, err) : tn_fail(err, TN_E_NOMEM, "no memory for the variants");
  for (uint32_t i = 0; st == TN_OK && i < a->n_specs; i++) {
    st = compose(b, i, &open[n], err);
    if ((st == TN_E_UNSUPPORTED || st == TN_E_ARG) && a->grid) {
      st = refuse(&b->e, a->spec[i].title, err);
      continue;
    }
    if (st != TN_OK) {
      tn_err_prefix(err, "%s", a->spec[i].title);
      break;
    }
    n++;
    st = same_model(b, i, &open[n - 1], err);
    if (st == TN_OK) st = describe(b, i, n - 1, &open[n - 1], err);
    ab_spec kept = a->spec[n - 1]; /* refused ones move behind those that stand */
    a->spec[n - 1] = a->spec[i];
    a->spec[i] = kept;
  }
  b->e.n_variants = n;
  if (st == TN_OK && n < 2)
    st = tn_fail(err, TN_E_ARG, "%u of %u combinations can run: there is nothing to compare", n, a->n_specs);
  if (st == TN_OK) warn_equals(b, open, n);
  for (uint32_t i = 0; open && i < n; i++) tn_setup_close(&open[i]);
  free(open);
  return st;
}

tn_status ab_open(ab_bench *b, tn_err *err)
{
  b->rig = tn_zalloc(b->e.n_variants, sizeof *b->rig);
  if (!b->rig) return tn_fail(err, TN_E_NOMEM, "no memory for the engines");
  for (uint32_t i = 0; i < b->e.n_variants; i++) {
    ab_setup s;
    ab_setup_of(b, i, &s);
    b->n_open = i + 1;
    tn_status st = tn_ab_rig_open(&b->rig[i], &s.args, b->e.n_gen, err);
    if (st != TN_OK) {
      tn_err_prefix(err, "%s (%s)", b->e.variant[i].name, b->e.variant[i].title);
      return st;
    }
    b->e.variant[i].load_s = b->rig[i].open_s;
  }
  return TN_OK;
}

void ab_close(ab_bench *b)
{
  for (uint32_t i = 0; i < b->n_open; i++) tn_ab_rig_close(&b->rig[i]);
  free(b->rig);
  for (uint32_t p = 0; p < TN_AB_MAX_PROMPTS; p++) free(b->prompt[p].at);
  tn_chunks_free(&b->chunks);
  tn_loader_free(b->loader);
  free(b->conf_dir);
  tn_ab_exp_free(&b->e);
}
