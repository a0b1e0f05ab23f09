/* two_slots: no fault either: one file that fills two slots, with a descriptor and a note for each. */
#define NAME "two_slots"
#define ID "org.tenon.test.two_slots.eviction"
#include "plugin_api.h"
TN_NOTE(second, "org.tenon.test.two_slots.position", TN_SLOT_POSITION);
static const tn_desc second_desc;
#define MODULE_N_DESC 2
#define MORE_DESCS &second_desc,
#include "base.h"

static tn_status table(tn_inst *inst, const tn_rope_query *query, tn_rope_spec *out, tn_err *err)
{
  (void)inst;
  (void)err;
  out->mscale = 1;
  for (uint32_t i = 0; i < query->dims / 2; i++) out->inv_freq[i] = 1;
  return TN_OK;
}
static const tn_position_v1 second_vtable = {.struct_size = sizeof second_vtable, .table = table};
static const tn_desc second_desc = {
    .struct_size = sizeof second_desc,
    .slot = TN_SLOT_POSITION,
    .slot_version = TN_SLOT_VERSION,
    .id = "org.tenon.test.two_slots.position",
    .name = "two_slots_position",
    .version = "1.0.0",
    .summary = "test plugin",
    .counters = COUNTERS,
    .create = CREATE,
    .destroy = DESTROY,
    .vtable = &second_vtable,
};
