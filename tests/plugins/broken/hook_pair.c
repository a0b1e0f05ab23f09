/* hook_pair: has the one and not the other of two functions that belong together. */
#define NAME "hook_pair"
#define WHEN when
#include "plugin_api.h"
static tn_status when(tn_inst *inst, tn_evict_when *w)
{
  (void)inst;
  w->next = TN_POS_INF;
  w->keep = -1;
  return TN_OK;
}
#include "base.h"
