/* slot: see slot.h. The hook tables are the only list of them in the host; tests/loader/test_slot.c compares each with
 * its vtable's size, so that a hook added to the contract cannot be forgotten here. */
#include "loader/slot.h"

#include <string.h>

#define HOOK(slot_, hook_, required_)                   \
  {                                                     \
#hook_, offsetof(tn_##slot_##_v1, hook_), required_ \
  }

static const tn_hook hooks_backend[] = {
    HOOK(backend, info, true),          HOOK(backend, buffer_new, true),
    HOOK(backend, buffer_free, true),   HOOK(backend, upload, true),
    HOOK(backend, download, true),      HOOK(backend, sync, true),
    HOOK(backend, weight_load, true),   HOOK(backend, weight_free, true),
    HOOK(backend, weight_read, true),   HOOK(backend, kv_open, true),
    HOOK(backend, kv_close, true),      HOOK(backend, kv_page_bytes, true),
    HOOK(backend, kv_move, true),       HOOK(backend, kv_page_read, true),
    HOOK(backend, kv_page_write, true), HOOK(backend, state_reset, true),
    HOOK(backend, state_fold, true),    HOOK(backend, prepare, true),
    HOOK(backend, prepared_free, true), HOOK(backend, run, true),
    HOOK(backend, act, true),           HOOK(backend, op, true),
};
static const tn_hook hooks_memory[] = {
    HOOK(memory, configure, true),    HOOK(memory, admit, true),  HOOK(memory, take, true),
    HOOK(memory, give, true),         HOOK(memory, end, true),    HOOK(memory, free_pages, true),
    HOOK(memory, page_tokens, false), HOOK(memory, quota, false),
};
static const tn_hook hooks_eviction[] = {
    HOOK(eviction, describe, true),
    HOOK(eviction, when, false),
    HOOK(eviction, score, false),
};
static const tn_hook hooks_quantizer[] = {
    HOOK(quantizer, take, true),        HOOK(quantizer, encode, true),   HOOK(quantizer, kv_layout, false),
    HOOK(quantizer, calibrate, false),  HOOK(quantizer, observe, false), HOOK(quantizer, fold, false),
    HOOK(quantizer, dequantize, false),
};
static const tn_hook hooks_draft[] = {
    HOOK(draft, describe, true),
    HOOK(draft, propose, true),
    HOOK(draft, outcome, false),
    HOOK(draft, rows, false),
};
static const tn_hook hooks_attention[] = {HOOK(attention, describe, true), HOOK(attention, tiles, false)};
static const tn_hook hooks_position[] = {HOOK(position, table, true), HOOK(position, regime, false)};
static const tn_hook hooks_scheduler[] = {HOOK(scheduler, plan, true), HOOK(scheduler, victim, true)};
static const tn_hook hooks_parallel[] = {HOOK(parallel, world, true), HOOK(parallel, plan, true)};

typedef struct slot_row {
  const char *name;
  const tn_hook *hooks;
  size_t n_hooks;
  uint32_t size; /* of the vtable */
} slot_row;

#define ROW(slot_)                                                                                 \
  {                                                                                                \
#slot_, hooks_##slot_, sizeof hooks_##slot_ / sizeof hooks_##slot_[0], sizeof(tn_##slot_##_v1) \
  }

static const slot_row rows[] = {
    [TN_SLOT_BACKEND] = ROW(backend),     [TN_SLOT_MEMORY] = ROW(memory),       [TN_SLOT_EVICTION] = ROW(eviction),
    [TN_SLOT_QUANTIZER] = ROW(quantizer), [TN_SLOT_DRAFT] = ROW(draft),         [TN_SLOT_ATTENTION] = ROW(attention),
    [TN_SLOT_POSITION] = ROW(position),   [TN_SLOT_SCHEDULER] = ROW(scheduler), [TN_SLOT_PARALLEL] = ROW(parallel),
};

const char *tn_slot_name(uint32_t slot)
{
  return slot >= TN_SLOT_FIRST && slot <= TN_SLOT_LAST ? rows[slot].name : "unknown";
}

uint32_t tn_slot_by_name(const char *name)
{
  for (uint32_t s = TN_SLOT_FIRST; s <= TN_SLOT_LAST; s++)
    if (strcmp(rows[s].name, name) == 0) return s;
  return 0;
}

const tn_hook *tn_slot_hooks(uint32_t slot, size_t *n, uint32_t *size)
{
  if (slot < TN_SLOT_FIRST || slot > TN_SLOT_LAST) {
    *n = 0;
    *size = 0;
    return NULL;
  }
  *n = rows[slot].n_hooks;
  *size = rows[slot].size;
  return rows[slot].hooks;
}
