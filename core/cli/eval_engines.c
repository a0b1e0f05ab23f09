/* eval_engines: the tested engine, the reference beside it, and how far the work is. See eval.h. */
#include <string.h>
#include <unistd.h>

#include "cli/eval.h"

void tn_eval_begin(tn_eval *e, const tn_cli_usage *usage, int argc, char **argv)
{
  e->engine.cli = e->reference.cli = &e->cli;
  tn_cli_begin(&e->cli, usage, argc, argv);
}

bool tn_eval_take_ref(tn_eval *e, int i, const char *value)
{
  static const int as[] = {1, 2, 0}; /* --conf, --set, --model of TN_ENGINE_OPTIONS */
  e->has_reference = true;
  return tn_engine_args_take(&e->reference, as[i], value);
}

/* The reference's own options, and those of the machine that both share. */
static bool share_options(tn_eval *e)
{
  const tn_engine_args *a = &e->engine;
  tn_engine_args *b = &e->reference;
  b->json = a->json;
  b->verbose = a->verbose;
  b->no_cache = a->no_cache;
  if (!b->model) b->model = a->model;
  for (size_t i = 0; i < a->n_sets; i++) {
    if (!a->from[i]) continue;
    if (b->n_sets == TN_MAX_SETS) return tn_cli_mistake(&e->cli, "more than %u --ref-set", TN_MAX_SETS), false;
    b->from[b->n_sets] = a->from[i];
    b->sets[b->n_sets++] = a->sets[i];
  }
  return true;
}

static int open_one(tn_eval *e, int which, const tn_engine_args *args)
{
  e->scorer[which] = tn_scorer_new();
  if (!e->scorer[which]) {
    tn_err err = tn_err_init();
    tn_fail(&err, TN_E_NOMEM, "no memory for an engine's rows");
    return tn_cli_fail(&e->cli, &err);
  }
  tn_setup_args more = {.events = tn_scorer_events(e->scorer[which])};
  int code = tn_engine_args_open(args, &more, &e->setup[which]);
  if (code == TN_EXIT_OK && args->verbose) tn_engine_print_memory(stderr, &e->setup[which], true);
  return code;
}

int tn_eval_open(tn_eval *e)
{
  if (e->has_reference && !share_options(e)) return TN_EXIT_USAGE;
  int code = open_one(e, 0, &e->engine);
  if (code != TN_EXIT_OK || !e->has_reference) return code;
  code = open_one(e, 1, &e->reference);
  if (code != TN_EXIT_OK) return code;
  if (memcmp(tn_composition_fingerprint(e->setup[0].composition), tn_composition_fingerprint(e->setup[1].composition),
             32) == 0)
    fprintf(stderr, "warning: the reference is the same composition as the tested one\n");
  return code;
}

void tn_eval_close(tn_eval *e)
{
  for (int i = 0; i < 2; i++) {
    if (e->engine.verbose && e->setup[i].engine) tn_engine_print_counters(stderr, e->setup[i].engine);
    tn_setup_close(&e->setup[i]);
    tn_scorer_free(e->scorer[i]);
  }
  tn_engine_args_release(&e->engine);
  tn_engine_args_release(&e->reference);
}

json_t *tn_eval_subject_json(const tn_setup *s)
{
  char print[TN_FINGERPRINT_HEX + 1];
  const tn_choice *p;
  tn_composition_short(s->composition, print);
  json_t *untrained = json_array();
  for (size_t i = 0; (p = tn_composition_untrained(s->composition, i)); i++)
    json_array_append_new(untrained, json_pack("{s:s, s:s}", "key", p->key, "plugin", p->desc->name));
  return json_pack("{s:s, s:s, s:o, s:o}", "model", tn_gguf_path(s->model->gguf), "fingerprint", print, "untrained",
                   untrained, "counters", tn_engine_counters_json(s->engine));
}

void tn_eval_print_untrained(const tn_setup *s, const char *what)
{
  const tn_choice *p;
  for (size_t i = 0; (p = tn_composition_untrained(s->composition, i)); i++)
    printf("untrained: the %s has %s = %s, which the model was not trained for: its figures are another model's\n",
           what, p->key, p->desc->name);
}

tn_eval_progress tn_eval_progress_begin(uint32_t before)
{
  return (tn_eval_progress){.start = tn_now_ns(), .tty = tn_cli_colour(stderr), .before = before};
}

void tn_eval_progress_show(tn_eval_progress *p, uint32_t done, uint32_t all)
{
  double spent = (double)(tn_now_ns() - p->start) / 1e9;
  if (!p->tty || done >= all || done <= p->before) return;
  fprintf(stderr, "\r[%u/%u] %.0f s left\033[K", done, all, spent / (done - p->before) * (all - done));
  p->shown = true;
}

void tn_eval_progress_clear(tn_eval_progress *p)
{
  if (p->shown) fputs("\r\033[K", stderr);
  p->shown = false;
}
