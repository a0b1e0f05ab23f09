/* base: a correct eviction plugin that keeps everything. A plugin with a fault defines what it gets wrong, then includes
 * this file. Each file of this folder has one fault and says which test of the checker, or which message of the loader,
 * finds it. */
#include "plugin_api.h"

#ifndef NAME
#error "a broken plugin defines NAME, its file's name"
#endif
#ifndef ID
#define ID "org.tenon.test." NAME
#endif

/* ---- the note */
#ifndef NOTE_MAJOR
#define NOTE_MAJOR TN_ABI_MAJOR
#endif
#ifndef NOTE_MINOR
#define NOTE_MINOR TN_ABI_MINOR
#endif
#ifndef NOTE_MIN_MINOR
#define NOTE_MIN_MINOR TN_ABI_MINOR
#endif
#ifndef NOTE_ISA
#define NOTE_ISA TN_ISA_BASE
#endif
#ifndef NOTE_SLOT
#define NOTE_SLOT TN_SLOT_EVICTION
#endif
#ifndef NOTE_RESERVED
#define NOTE_RESERVED 0
#endif
#ifndef NOTE_ID
#define NOTE_ID ID
#endif
#ifndef NO_NOTE
__attribute__((section(".note.tenon"), used, aligned(4))) static const tn_note note = {4,
                                                                                       88,
                                                                                       TN_NOTE_TYPE,
                                                                                       {'T', 'E', 'N', 0},
                                                                                       NOTE_MAJOR,
                                                                                       NOTE_MINOR,
                                                                                       NOTE_MIN_MINOR,
                                                                                       NOTE_ISA,
                                                                                       NOTE_SLOT,
                                                                                       NOTE_RESERVED,
                                                                                       NOTE_ID};
#endif

/* ---- the plugin */
#ifndef CREATE
static tn_status create(const tn_host *host, const tn_value *values, tn_inst **out, tn_err *err)
{
  (void)values;
  *out = host->alloc(host->ctx, 8, 8);
  if (*out) return TN_OK;
  if (err) err->msg[0] = '-', err->msg[1] = 0;
  return TN_E_NOMEM;
}
#define CREATE create
#endif
#ifndef DESTROY
static void destroy(tn_inst *inst) { (void)inst; }
#define DESTROY destroy
#endif
#ifndef DESCRIBE
static tn_status describe(tn_inst *inst, const tn_plan *plan, tn_evict_spec *out, tn_err *err)
{
  static const tn_mask all = TN_MASK_ALL;
  (void)inst;
  (void)plan;
  (void)err;
  out->kind = TN_EV_POSITION;
  out->gran = TN_GRAN_ALL;
  out->mask = all;
  return TN_OK;
}
#define DESCRIBE describe
#endif
#ifndef WHEN
#define WHEN NULL
#endif
#ifndef VTABLE_SIZE
#define VTABLE_SIZE sizeof(tn_eviction_v1)
#endif
#ifndef VTABLE_RESERVED
#define VTABLE_RESERVED 0
#endif
#ifndef VTABLE
static const tn_eviction_v1 vtable = {VTABLE_SIZE, VTABLE_RESERVED, DESCRIBE, WHEN, NULL};
#define VTABLE &vtable
#endif

/* ---- the descriptor */
#ifndef DESC_SIZE
#define DESC_SIZE sizeof(tn_desc)
#endif
#ifndef DESC_SLOT
#define DESC_SLOT TN_SLOT_EVICTION
#endif
#ifndef DESC_SLOT_VERSION
#define DESC_SLOT_VERSION TN_SLOT_VERSION
#endif
#ifndef DESC_FLAGS
#define DESC_FLAGS TN_F_DETERMINISTIC
#endif
#ifndef DESC_ID
#define DESC_ID ID
#endif
#ifndef DESC_NAME
#define DESC_NAME NAME
#endif
#ifndef DESC_VERSION
#define DESC_VERSION "1.0.0"
#endif
#ifndef SUMMARY
#define SUMMARY "test plugin"
#endif
#ifndef PROVIDES
#define PROVIDES NULL
#endif
#ifndef NEEDS
#define NEEDS NULL
#endif
#ifndef CONFLICTS
#define CONFLICTS NULL
#endif
#ifndef PARAMS
#define PARAMS NULL
#endif
#ifndef COUNTERS
static const char *const counters[] = {"evicted", NULL};
#define COUNTERS counters
#endif
#ifndef EXT
#define EXT NULL
#endif
#ifndef TABLE
#define TABLE static const
#endif
#ifndef DESC
TABLE tn_desc desc = {
    .struct_size = DESC_SIZE,
    .slot = DESC_SLOT,
    .slot_version = DESC_SLOT_VERSION,
    .flags = DESC_FLAGS,
    .id = DESC_ID,
    .name = DESC_NAME,
    .version = DESC_VERSION,
    .summary = SUMMARY,
    .provides = PROVIDES,
    .needs = NEEDS,
    .conflicts = CONFLICTS,
    .params = PARAMS,
    .counters = COUNTERS,
    .create = CREATE,
    .destroy = DESTROY,
    .ext = EXT,
    .vtable = VTABLE,
};
#define DESC &desc
#endif

/* ---- the module */
#ifndef MODULE_SIZE
#define MODULE_SIZE sizeof(tn_module)
#endif
#ifndef MODULE_MINOR
#define MODULE_MINOR TN_ABI_MINOR
#endif
#ifndef MODULE_N_DESC
#define MODULE_N_DESC 1
#endif
#ifndef MODULE_VERSION
#define MODULE_VERSION "1.0.0"
#endif
#ifndef VENDOR
#define VENDOR "Tenon tests"
#endif
#ifndef MODULE_LICENSE
#define MODULE_LICENSE "Apache-2.0"
#endif
#ifndef SHUTDOWN
#define SHUTDOWN NULL
#endif
#ifndef MORE_DESCS
#define MORE_DESCS
#endif
#ifndef NO_MODULE
static const tn_desc *const descs[] = {DESC, MORE_DESCS NULL};
TABLE tn_module module = {
    .struct_size = MODULE_SIZE,
    .abi_major = TN_ABI_MAJOR,
    .abi_minor = MODULE_MINOR,
    .n_desc = MODULE_N_DESC,
    .name = NAME,
    .version = MODULE_VERSION,
    .vendor = VENDOR,
    .license = MODULE_LICENSE,
    .build = "test",
    .desc = descs,
    .shutdown = SHUTDOWN,
};
#endif

/* ---- the entry */
#ifndef ENTRY_BODY
#define ENTRY_BODY return &module;
#endif
#ifndef NO_ENTRY
const tn_module *tn_module_v0(const tn_host *host, tn_err *err)
{
  (void)host;
  (void)err;
  ENTRY_BODY
}
#endif
