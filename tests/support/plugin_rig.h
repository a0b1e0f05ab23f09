/* plugin_rig: one plugin of the build tree, created with options in text form, for tests that call its vtable directly.
 * Ends the test on a failure. */
#ifndef TN_TESTS_PLUGIN_RIG_H
#define TN_TESTS_PLUGIN_RIG_H

#include "host/instance.h"
#include "loader/loader.h"

typedef struct plugin_rig {
  const tn_desc *desc;
  const void *vtable;
  tn_inst *inst;
  tn_instance in;
  tn_value *values; /* of desc->params, in their order */
  uint32_t n_values;
  tn_loader *loader;
  tn_services services;
} plugin_rig;

/* sets: "key=value", NULL-terminated, or NULL: all defaults. Close with plugin_rig_close. */
plugin_rig *plugin_rig_open(uint32_t slot, const char *name, const char *const *sets);

/* The same with a model that the plugin finds as "tenon.model/1"; borrowed until close. */
plugin_rig *plugin_rig_open_on(uint32_t slot, const char *name, const char *const *sets, const tn_svc_model *model);

/* Destroys the instance; an allocation that it leaves behind ends the test. */
void plugin_rig_close(plugin_rig *p);

/* The plugin's validate() on these options and plan; TN_OK when it has none. */
tn_status plugin_rig_validate(const plugin_rig *p, const tn_plan *plan, tn_err *err);

/* Counter k so far. */
uint64_t plugin_rig_count(const plugin_rig *p, uint32_t k);

#endif
