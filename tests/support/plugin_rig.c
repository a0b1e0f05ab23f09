/* plugin_rig: see plugin_rig.h. */
#include "plugin_rig.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "config/param.h"

static void fill_values(plugin_rig *p, const char *const *sets)
{
  tn_err err = tn_err_init();
  while (p->desc->params && p->desc->params[p->n_values]) p->n_values++;
  p->values = tn_zalloc(p->n_values, sizeof *p->values);
  for (uint32_t i = 0; i < p->n_values; i++) {
    const tn_param *row = p->desc->params[i];
    size_t n = strlen(row->key);
    const char *text = row->def;
    for (size_t k = 0; sets && sets[k]; k++)
      if (strncmp(sets[k], row->key, n) == 0 && sets[k][n] == '=') text = sets[k] + n + 1;
    cr_assert(text, "%s: no value for %s", p->desc->name, row->key);
    cr_assert(tn_param_parse(row, text, NULL, &p->values[i], &err) == TN_OK, "%s", err.msg);
  }
  for (size_t k = 0; sets && sets[k]; k++) {
    bool known = false;
    for (uint32_t i = 0; i < p->n_values; i++) {
      size_t n = strlen(p->desc->params[i]->key);
      known = known || (strncmp(sets[k], p->desc->params[i]->key, n) == 0 && sets[k][n] == '=');
    }
    cr_assert(known, "%s has no option '%s'", p->desc->name, sets[k]);
  }
}

plugin_rig *plugin_rig_open(uint32_t slot, const char *name, const char *const *sets)
{
  return plugin_rig_open_on(slot, name, sets, NULL);
}

plugin_rig *plugin_rig_open_on(uint32_t slot, const char *name, const char *const *sets, const tn_svc_model *model)
{
  plugin_rig *p = tn_zalloc(1, sizeof *p);
  tn_err err = tn_err_init();
  tn_loader_cfg cfg = {.path = TN_BUILD_DIR "/tests/plugins", .lib_dir = TN_BUILD_DIR "/lib/tenon"};
  const tn_plugin *plugin;
  cr_assert(tn_loader_new(&cfg, &p->loader, &err) == TN_OK, "%s", err.msg);
  cr_assert(tn_loader_open(p->loader, slot, name, NULL, &plugin, &err) == TN_OK, "%s", err.msg);
  p->desc = plugin->desc;
  p->vtable = p->desc->vtable;
  p->services.model = model;
  fill_values(p, sets);
  cr_assert(tn_instance_new(p->desc, p->values, &p->services, &p->in, &err) == TN_OK, "%s", err.msg);
  p->inst = p->in.inst;
  return p;
}

void plugin_rig_close(plugin_rig *p)
{
  if (!p) return;
  uint64_t left = tn_instance_release(&p->in);
  cr_assert(left == 0, "%s leaves %llu allocations behind", p->desc->name, (unsigned long long)left);
  for (uint32_t i = 0; i < p->n_values; i++) tn_value_free(&p->values[i]);
  free(p->values);
  tn_loader_free(p->loader);
  free(p);
}

tn_status plugin_rig_validate(const plugin_rig *p, const tn_plan *plan, tn_err *err)
{
  return p->desc->validate ? p->desc->validate(plan, p->values, err) : TN_OK;
}

uint64_t plugin_rig_count(const plugin_rig *p, uint32_t k) { return tn_instance_count(&p->in, k); }
