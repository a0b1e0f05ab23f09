/* Values of a table of options: origin, default, the special section, and what is refused. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <string.h>

#include "config/host_params.h"
#include "config/options.h"
#include "config/param.h"
#include "engine/verify.h"

static const tn_param group = {.struct_size = sizeof(tn_param),
                               .type = TN_T_I64,
                               .key = "group",
                               .def = "64",
                               .imin = 16,
                               .imax = 256,
                               .help = "elements per scale"};
static const tn_param file = {
    .struct_size = sizeof(tn_param), .type = TN_T_PATH, .key = "file", .def = "", .help = "a file"};
static const tn_param need = {.struct_size = sizeof(tn_param),
                              .type = TN_T_F64,
                              .key = "need",
                              .fmax = 1,
                              .flags = TN_P_REQUIRED,
                              .help = "a factor"};
static const tn_param *const table[] = {&group, &file, NULL};
static const tn_param *const strict[] = {&need, NULL};

static tn_err err;
static tn_config *cfg;
static tn_options opt;

static tn_status read(const char *text, const char *special, const tn_param *const *params)
{
  err = tn_err_init();
  cfg = tn_config_new(NULL, NULL);
  cr_assert(zero(int, tn_config_load_text(cfg, "a.ini", text, strlen(text), &err)), "%s", err.msg);
  tn_options_want want = {"quantizer.int8", special, params, true};
  return tn_options_read(cfg, &want, &opt, &err);
}

static void done(void)
{
  tn_options_free(&opt);
  tn_config_free(cfg);
}

Test(options, values_and_origins, .fini = done)
{
  cr_assert(zero(int, read("[quantizer.int8]\ngroup = 32\npath = x.so\n", NULL, table)), "%s", err.msg);
  cr_assert(eq(i64, opt.values[0].v.i, 32));
  cr_assert(eq(str, (char *)opt.from[0]->where, "a.ini:2"));
  cr_assert(eq(str, (char *)opt.values[1].v.s, ""));
  cr_assert(zero(ptr, (void *)opt.from[1]));
  cr_assert(eq(i64, tn_options_find(&opt, "group")->v.i, 32));
  cr_assert(zero(ptr, (void *)tn_options_find(&opt, "path")));
}

Test(options, special_section_first, .fini = done)
{
  const char *text = "[quantizer.int8@kv]\ngroup = 16\n[quantizer.int8]\ngroup = 32\nfile = f\n";
  cr_assert(zero(int, read(text, "quantizer.int8@kv", table)), "%s", err.msg);
  cr_assert(eq(i64, opt.values[0].v.i, 16));
  cr_assert(eq(str, (char *)opt.values[1].v.s, "f"));
}

Test(options, other_special_section_is_not_read, .fini = done)
{
  const char *text = "[quantizer.int8@kv]\ngroup = 16\n[quantizer.int8]\ngroup = 32\n";
  cr_assert(zero(int, read(text, "quantizer.int8@weights", table)), "%s", err.msg);
  cr_assert(eq(i64, opt.values[0].v.i, 32));
}

Test(options, empty_value_is_the_default, .fini = done)
{
  cr_assert(zero(int, read("[quantizer.int8]\ngroup =\n", NULL, table)), "%s", err.msg);
  cr_assert(eq(i64, opt.values[0].v.i, 64));
}

Test(options, unknown_key, .fini = done)
{
  cr_assert(eq(int, read("[quantizer.int8]\n\ngruop = 32\n", NULL, table), TN_E_ARG));
  cr_assert(eq(str, err.msg, "a.ini:3: [quantizer.int8] has no option 'gruop'; did you mean 'group'?"));
}

Test(options, unknown_key_near_a_reserved_one, .fini = done)
{
  cr_assert(eq(int, read("[quantizer.int8]\nsha265 = 0\n", NULL, table), TN_E_ARG));
  cr_assert(eq(str, err.msg, "a.ini:2: [quantizer.int8] has no option 'sha265'; did you mean 'sha256'?"));
}

Test(options, unknown_key_of_a_plugin_without_options, .fini = done)
{
  cr_assert(eq(int, read("[quantizer.int8]\nwhatever = 0\n", NULL, NULL), TN_E_ARG));
  cr_assert(eq(str, err.msg, "a.ini:2: [quantizer.int8] has no option 'whatever'; it takes none"));
}

Test(options, value_out_of_range, .fini = done)
{
  cr_assert(eq(int, read("[quantizer.int8]\ngroup = 8\n", NULL, table), TN_E_ARG));
  cr_assert(eq(str, err.msg, "a.ini:2: [quantizer.int8]: group = 8: want a whole number from 16 to 256"));
}

Test(options, required_option_missing, .fini = done)
{
  cr_assert(eq(int, read("", NULL, strict), TN_E_ARG));
  cr_assert(eq(str, err.msg, "[quantizer.int8] need has to be set: a factor; want a number from 0 to 1"));
}

Test(options, check_of_a_section_alone)
{
  const char *text = "[quantizer.int8]\ngruop = 1\n[quantizer.int8@kv]\npath = x.so\nneed = 0.5\n";
  err = tn_err_init();
  cfg = tn_config_new(NULL, NULL);
  cr_assert(zero(int, tn_config_load_text(cfg, "a.ini", text, strlen(text), &err)), "%s", err.msg);
  tn_options_want want = {.section = "quantizer.int8@kv", .params = strict, .plugin = true};
  cr_assert(zero(int, tn_options_check(cfg, &want, &err)), "%s", err.msg);
  want.section = "quantizer.int8@weights";
  cr_assert(zero(int, tn_options_check(cfg, &want, &err)), "what is missing is no fault: %s", err.msg);
  want = (tn_options_want){.section = "quantizer.int8@kv", .params = table, .plugin = true};
  cr_assert(eq(int, tn_options_check(cfg, &want, &err), TN_E_ARG));
  cr_assert(
      eq(str, err.msg, "a.ini:5: [quantizer.int8@kv] has no option 'need'; the first of its 2 options is 'group'"));
  want.params = (const tn_param *const[]){&(tn_param){.type = TN_T_F64, .key = "need", .fmax = 0.25}, NULL};
  cr_assert(eq(int, tn_options_check(cfg, &want, &err), TN_E_ARG));
  cr_assert(eq(str, err.msg, "a.ini:5: [quantizer.int8@kv]: need = 0.5: want a number from 0 to 0.25"));
  tn_config_free(cfg);
}

/* The host's own tables: every row has a default that parses, and the struct gets each value. */
Test(options, host_tables)
{
  err = tn_err_init();
  for (size_t s = 0; tn_host_section_at(s); s++) {
    const tn_host_section *h = tn_host_section_at(s);
    for (size_t i = 0; h->params[i]; i++) {
      tn_value v;
      cr_assert(zero(int, tn_param_default(h->params[i], &v, &err)), "%s", err.msg);
      cr_assert(gt(sz, strlen(h->params[i]->help), 0));
      tn_value_free(&v);
    }
  }
  tn_config *c = tn_config_new(NULL, NULL);
  const char *text = "[engine]\nthreads=3\nactivations=int8\nverify=typical\ntypical_eps=0.5\ntypical_delta=0.25\n"
                     "attention_kernel=naive\nseed=9\nctx=100\nmax_seqs=5\nmax_rows=6\nkv_budget=7K\nin_flight=2\n"
                     "prefix_cache=no\nmax_queued=8\n"
                     "unfused=yes\nallow_untrained=yes\nweights_cache=no\nweights_cache_limit=3M\n";
  cr_assert(zero(int, tn_config_load_text(c, "a.ini", text, strlen(text), &err)), "%s", err.msg);
  tn_options o;
  tn_options_want want = {"engine", NULL, tn_host_section_find("engine")->params, false};
  cr_assert(zero(int, tn_options_read(c, &want, &o, &err)), "%s", err.msg);
  for (uint32_t i = 0; i < o.n; i++) cr_assert(o.from[i] != NULL, "%s is tested here", o.params[i]->key);
  tn_engine_opts e = tn_engine_opts_of(o.values);
  cr_assert(eq(u32, e.threads, 3));
  cr_assert(eq(u32, e.activations, TN_ACTIVATIONS_INT8));
  cr_assert(eq(u32, e.verify, TN_VERIFY_TYPICAL));
  cr_assert(eq(dbl, e.typical_eps, 0.5));
  cr_assert(eq(dbl, e.typical_delta, 0.25));
  cr_assert(eq(u32, e.attention_kernel, TN_KERNEL_NAIVE));
  cr_assert(eq(u64, e.seed, 9));
  cr_assert(not(e.prefix_cache));
  cr_assert(eq(u32, e.max_queued, 8));
  cr_assert(eq(i64, e.ctx, 100));
  cr_assert(eq(u32, e.max_seqs, 5));
  cr_assert(eq(u32, e.max_rows, 6));
  cr_assert(eq(u64, e.kv_budget_bytes, 7168));
  cr_assert(eq(u32, e.in_flight, 2));
  cr_assert(e.unfused && e.allow_untrained && !e.weights_cache);
  cr_assert(eq(u64, e.weights_cache_limit_bytes, 3u << 20));
  tn_options_free(&o);
  tn_config_free(c);
}
