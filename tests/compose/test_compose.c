/* Compositions that work: parts, values, plan, position from the model, warnings; and what a configuration gets wrong. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "compose/composed.h"

static composed w;

static void open_text(const char *text, const tn_compose_model *model)
{
  w = (composed){0};
  composed_open(&w, text, true, NULL, model);
}

static void done(void) { composed_free(&w); }
TestSuite(compose, .fini = done);

Test(compose, parts_in_the_order_of_keys)
{
  open_text("[compose]\nkv = q8\nweights = q8\neviction = last\n[quantizer.q8]\ngroup = 64\n"
            "[quantizer.q8@kv]\ngroup = 16\n[eviction.last]\nspan = 100\n",
            NULL);
  cr_assert(w.c != NULL, "%s", w.err.msg);
  const char *keys[] = {"backend", "memory", "attention", "scheduler", "position", "eviction", "weights", "kv"};
  cr_assert(eq(sz, tn_composition_n(w.c), 8));
  for (size_t i = 0; i < 8; i++) cr_assert(eq(str, (char *)tn_composition_at(w.c, i)->key, (char *)keys[i]));
  cr_assert(zero(ptr, (void *)tn_composition_at(w.c, 8)));
  cr_assert(zero(ptr, (void *)part(&w, "draft")));
  const tn_choice *e = part(&w, "eviction");
  cr_assert(eq(str, (char *)e->desc->name, "last"));
  cr_assert(eq(str, (char *)e->where, "a.ini:4"));
  cr_assert(eq(i64, e->options.values[0].v.i, 4));
  cr_assert(eq(i64, e->options.values[1].v.i, 100));
  cr_assert(eq(i64, part(&w, "weights")->options.values[0].v.i, 64));
  cr_assert(eq(i64, part(&w, "kv")->options.values[0].v.i, 16));
  cr_assert(eq(u32, e->layer1, TN_LAYER_END));
}

Test(compose, plan_without_a_model)
{
  open_text("[compose]\nparallel = split\n[parallel.split]\nworld = 3\n[engine]\nctx = 77\n", NULL);
  cr_assert(w.c != NULL, "%s", w.err.msg);
  const tn_plan *p = tn_composition_plan(w.c);
  cr_assert(eq(u32, p->world, 3));
  cr_assert(eq(u32, p->page_tokens, 32), "an option with choices");
  cr_assert(eq(i64, p->max_ctx, 77));
  cr_assert(zero(ptr, (void *)p->model));
  cr_assert(eq(u32, p->n_parts, 6));
  cr_assert(eq(str, (char *)p->parts[5]->key, "parallel"));
  cr_assert(eq(str, (char *)p->parts[5]->id, "org.mock.split"));
}

Test(compose, plan_with_a_model)
{
  tn_compose_model m = small_model("");
  open_text("[compose]\nmemory = slab\n", &m);
  cr_assert(w.c != NULL, "%s", w.err.msg);
  const tn_plan *p = tn_composition_plan(w.c);
  cr_assert(eq(u32, p->world, 1));
  cr_assert(eq(u32, p->page_tokens, TN_PLAN_PAGE_TOKENS));
  cr_assert(eq(i64, p->max_ctx, 2048));
  cr_assert(eq(ptr, (void *)p->model, (void *)m.shape));
}

Test(compose, context_of_a_model_is_bounded)
{
  tn_model_shape shape = *small_model("").shape;
  shape.n_ctx_train = 131072;
  tn_compose_model m = {.shape = &shape, .rope_scaling = ""};
  open_text("", &m);
  cr_assert(eq(i64, tn_composition_plan(w.c)->max_ctx, TN_PLAN_CTX_MAX));
}

Test(compose, position_of_a_plain_model)
{
  tn_compose_model m = small_model("");
  open_text("", &m);
  cr_assert(w.c != NULL, "%s", w.err.msg);
  cr_assert(eq(str, (char *)part(&w, "position")->desc->name, "turn"));
  cr_assert(eq(str, (char *)part(&w, "position")->where, "conf/models.ini:2"));
  cr_assert(eq(str, (char *)part(&w, "position")->why, "no key; the model has no rope scaling"));
}

Test(compose, position_of_a_scaled_model)
{
  tn_compose_model m = small_model("long");
  open_text("", &m);
  cr_assert(eq(str, (char *)part(&w, "position")->desc->name, "stretch"));
  cr_assert(eq(str, (char *)part(&w, "position")->where, "conf/models.ini:3"));
  cr_assert(eq(str, (char *)part(&w, "position")->why, "no key; the model's rope scaling is 'long'"));
}

Test(compose, position_by_its_key)
{
  tn_compose_model m = small_model("long");
  open_text("[compose]\nposition = turn\n", &m);
  cr_assert(eq(str, (char *)part(&w, "position")->desc->name, "turn"));
  cr_assert(zero(ptr, (void *)part(&w, "position")->why));
}

Test(compose, position_of_an_unknown_scaling)
{
  tn_compose_model m = small_model("spiral");
  open_text("", &m);
  cr_assert(
      eq(str, w.err.msg,
         "[compose] position is not set, and conf/models.ini has no plugin for the model's rope scaling 'spiral': "
         "set position, or give the word a line there"));
  cr_assert(eq(int, w.err.code, TN_E_UNSUPPORTED));
}

Test(compose, attention_by_layers)
{
  tn_compose_model m = small_model("");
  open_text("[compose]\nattention.layers = 0:plain, 1-3:window\n[attention.window]\nwidth = 7\n", &m);
  cr_assert(w.c != NULL, "%s", w.err.msg);
  const tn_choice *a = tn_composition_at(w.c, 2), *b = tn_composition_at(w.c, 3);
  cr_assert(eq(str, (char *)a->desc->name, "plain"));
  cr_assert(eq(u32, a->layer0, 0));
  cr_assert(eq(u32, a->layer1, 1));
  cr_assert(eq(str, (char *)b->key, "attention"));
  cr_assert(eq(u32, b->layer0, 1));
  cr_assert(eq(u32, b->layer1, TN_LAYER_END));
  cr_assert(eq(i64, b->options.values[0].v.i, 7));
}

Test(compose, attention_by_layers_beyond_the_model)
{
  tn_compose_model m = small_model("");
  open_text("[compose]\nattention.layers = 0-4:plain\n", &m);
  cr_assert(eq(str, w.err.msg, "a.ini:2: attention.layers: the ranges end with layer 4, the model's last layer is 3"));
}

/* The later of the two keys counts. */
Test(compose, attention_key_after_layers)
{
  open_text("[compose]\nattention.layers = 0-:window\nattention = plain\n", NULL);
  cr_assert(eq(str, (char *)part(&w, "attention")->desc->name, "plain"));
  composed_free(&w);
  open_text("[compose]\nattention = plain\nattention.layers = 0-:window\n", NULL);
  cr_assert(eq(str, (char *)part(&w, "attention")->desc->name, "window"));
}

Test(compose, host_options)
{
  open_text("[engine]\nthreads = 3\nkv_budget = 1G\n[model]\npath = x/m.gguf\n", NULL);
  cr_assert(w.c != NULL, "%s", w.err.msg);
  const tn_host_options *h = tn_composition_host(w.c);
  cr_assert(eq(u32, h->opts.threads, 3));
  cr_assert(eq(u64, h->opts.kv_budget_bytes, (uint64_t)1 << 30));
  cr_assert(eq(str, (char *)h->model_path, "x/m.gguf"));
  cr_assert(zero(ptr, (void *)tn_composition_warning(w.c, 0)));
}

Test(compose, pins_reach_the_loader)
{
  open_text("[memory.pages]\npath = lib/pages.so\nmin = 1.2\nsha256 = 00ff\n", NULL);
  cr_assert(w.c != NULL, "%s", w.err.msg);
  char cwd[200], want[256];
  snprintf(want, sizeof want, "%s/lib/pages.so", getcwd(cwd, sizeof cwd));
  cr_assert(eq(str, w.mock.path, want), "from the folder of the file that names it");
  cr_assert(eq(str, w.mock.min, "1.2"));
  cr_assert(eq(str, w.mock.sha256, "00ff"));
}

Test(compose, warnings)
{
  open_text("[memory.pages]\nold = 3\n[eviction.last]\nspan = 3\nfirst = 1\n[quantizer.q8@kv]\ngroup = 16\n", NULL);
  cr_assert(w.c != NULL, "%s", w.err.msg);
  cr_assert(eq(str, (char *)tn_composition_warning(w.c, 0), "a.ini:2: [memory.pages] old is deprecated: help of old"));
  cr_assert(eq(str, (char *)tn_composition_warning(w.c, 1),
               "a.ini:4: [eviction.last] has no effect: last is not in the composition"));
  cr_assert(eq(str, (char *)tn_composition_warning(w.c, 2),
               "a.ini:7: [quantizer.q8@kv] has no effect: q8 is not in the composition"));
  cr_assert(zero(ptr, (void *)tn_composition_warning(w.c, 3)));
}

Test(compose, section_under_a_key_that_another_plugin_fills)
{
  open_text("[compose]\nkv = q8\n[quantizer.q8@weights]\ngroup = 16\n", NULL);
  cr_assert(w.c != NULL, "%s", w.err.msg);
  cr_assert(eq(str, (char *)tn_composition_warning(w.c, 0),
               "a.ini:4: [quantizer.q8@weights] has no effect: q8 fills kv, not weights"));
  composed_free(&w);
  open_text("[compose]\nkv = q8\n[quantizer.q8@kv]\ngroup = 16\n[quantizer.q8]\nmode = odd\n", NULL);
  cr_assert(zero(ptr, (void *)tn_composition_warning(w.c, 0)));
}

/* Nothing reads the section, but the plugin's table tells whether its keys are right. */
static char *message(const char *text);
Test(compose, section_of_a_plugin_that_is_not_in_use)
{
  cr_assert(eq(str, message("[eviction.last]\nspam = 3\n"),
               "a.ini:2: [eviction.last] has no option 'spam'; did you mean 'span'?"));
  composed_free(&w);
  cr_assert(eq(str, message("[eviction.last]\nspan = 0\n"),
               "a.ini:2: [eviction.last]: span = 0: want a whole number from 1 to 4096"));
  composed_free(&w);
  cr_assert(eq(str, message("[compose]\nkv = q8\n[quantizer.q8@weights]\ngruop = 16\n"),
               "a.ini:4: [quantizer.q8@weights] has no option 'gruop'; did you mean 'group'?"));
  composed_free(&w);
  cr_assert(eq(str, message("[eviction.last]\nspan =\npath = x.so\n"), "works"));
}

/* ---- a context longer than the trained one; small_model was trained for 2048 tokens */

static const char *context_warning(const char *text, const char *const *sets, int64_t orig)
{
  tn_compose_model m = small_model("");
  m.n_ctx_orig = orig;
  composed_free(&w);
  w = (composed){0};
  composed_open(&w, text, true, sets, &m);
  cr_assert(w.c != NULL, "%s", w.err.msg);
  const char *first = tn_composition_warning(w.c, 0);
  return first ? first : "";
}

Test(compose, context_beyond_the_trained_one)
{
#define BEYOND(ctx, where) \
  "engine.ctx = " ctx " (" where "): the model was trained for 2048 tokens; beyond them its answers get worse; "
  cr_assert(eq(str, (char *)context_warning("[engine]\nctx = 2048\n", NULL, 0), ""));
  cr_assert(eq(str, (char *)context_warning("[engine]\nctx = 0\n", NULL, 0), ""));
  cr_assert(eq(str, (char *)context_warning("[engine]\nctx = 2049\n", NULL, 0),
               BEYOND("2049", "a.ini:2") "position = stretch with position.stretch.factor = 2 stretches positions that "
                                         "far"));
  const char *sets[] = {"engine.ctx=9000", NULL};
  cr_assert(eq(str, (char *)context_warning("[compose]\nposition = stretch\n[position.stretch]\nfactor = 4\n", sets, 0),
               BEYOND("9000", "--set engine.ctx=9000") "position.stretch.factor = 5 stretches positions that far"));
}

Test(compose, context_that_something_makes_up_for)
{
  cr_assert(eq(str,
               (char *)context_warning("[engine]\nctx = 8192\n[compose]\nposition = stretch\n"
                                       "[position.stretch]\nfactor = 4\n",
                                       NULL, 2048),
               ""));
  cr_assert(ne(str,
               (char *)context_warning("[engine]\nctx = 8192\n[compose]\nposition = stretch\n"
                                       "[position.stretch]\nfactor = 4\n",
                                       NULL, 1024),
               ""),
            "the factor is of the context before the file's own scaling");
  cr_assert(eq(str, (char *)context_warning("[engine]\nctx = 8192\n[compose]\neviction = last\n", NULL, 0), ""));
}

Test(compose, context_that_no_plugin_could_stretch)
{
  tn_compose_model m = small_model("");
  w = (composed){.mock = {.hide = "stretch"}};
  composed_open(&w, "[engine]\nctx = 2049\n", true, NULL, &m);
  cr_assert(w.c != NULL, "%s", w.err.msg);
  cr_assert(
      eq(str, (char *)tn_composition_warning(w.c, 0),
         "engine.ctx = 2049 (a.ini:2): the model was trained for 2048 tokens; beyond them its answers get worse"));
}

static char *message(const char *text)
{
  open_text(text, NULL);
  return w.c ? "works" : w.err.msg;
}

Test(compose, section_of_no_plugin)
{
  cr_assert(eq(str, message("[eviction.lsat]\nspan = 3\n"),
               "a.ini:2: [eviction.lsat]: there is no plugin 'lsat' of slot eviction; did you mean 'last'?"));
}

Test(compose, plugin_that_is_not_there)
{
  cr_assert(eq(str, message("[compose]\ndraft = nothing\n"), "a.ini:2: draft = nothing: there is no plugin 'nothing'"));
}

Test(compose, name_that_no_plugin_can_have)
{
  cr_assert(eq(str, message("[compose]\ndraft = a/b\n"),
               "a.ini:2: draft = a/b: no plugin has such a name: a lower-case letter, then letters, digits and _"));
}

Test(compose, option_of_a_part)
{
  cr_assert(eq(str, message("[compose]\neviction = last\n[eviction.last]\nspam = 3\n"),
               "a.ini:4: [eviction.last] has no option 'spam'; did you mean 'span'?"));
}

Test(compose, option_of_the_engine)
{
  cr_assert(eq(str, message("[engine]\ntreads = 3\n"),
               "a.ini:2: [engine] has no option 'treads'; did you mean "
               "'threads'?"));
}

Test(compose, required_key_missing)
{
  cr_assert(eq(str, message("[compose]\nmemory = -\n"), "[compose] memory is not set; there are: pages, slab"));
}

Test(compose, required_key_without_plugins)
{
  w = (composed){.mock = {.hide = "queue"}};
  composed_open(&w, "[compose]\nscheduler =\n", true, NULL, NULL);
  cr_assert(eq(str, w.err.msg, "[compose] scheduler is not set; no plugin of that slot was found"));
}

/* ---- what the model was not trained for */

Test(compose, untrained_parts_are_warned_of)
{
  static const char odd[] = "[engine]\nallow_untrained = yes\n[compose]\nweights = odd\n";
  static const char layers[] = "[engine]\nallow_untrained = yes\n[compose]\nbackend = whole\n"
                               "attention.layers = 0:recur, 1:plain, 2-:recur\n";
  cr_assert(eq(str, (char *)context_warning(odd, NULL, 0),
               "a.ini:4: weights = odd: the model was not trained for it, so its answers and every figure are those of "
               "another model"));
  cr_assert(eq(str, (char *)context_warning("[compose]\nkv = odd\n[engine]\nallow_untrained = yes\n", NULL, 0), ""),
            "under kv its weights are as trained");
  cr_assert(eq(str, (char *)context_warning(layers, NULL, 0),
               "a.ini:5: attention.layers = recur: the model was not trained for it, so its answers and every figure "
               "are those of another model"));
  cr_assert(tn_composition_warning(w.c, 1) == NULL, "once, however many ranges");
  cr_assert(eq(str, (char *)context_warning("[engine]\nallow_untrained = yes\n", NULL, 0), ""));
}
