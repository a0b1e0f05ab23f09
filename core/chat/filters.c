/* filters: a filter or test by its name. */
#include "chat/jinja.h"

const tn_jbuiltin *tn_j_filter(tn_js name)
{
  const tn_jbuiltin *f = tn_j_find(tn_j_filters_text, tn_j_n_filters_text, name);
  if (!f) f = tn_j_find(tn_j_filters_list, tn_j_n_filters_list, name);
  return f ? f : tn_j_find(tn_j_filters_select, tn_j_n_filters_select, name);
}

bool tn_j_apply_filter(tn_jrun *r, tn_js name, const tn_jv *self, const tn_jargs *args, tn_jv *out)
{
  const tn_jbuiltin *f = tn_j_filter(name);
  int n = (int)(name.n < 40 ? name.n : 40);
  if (!f) return tn_j_fail(r, TN_E_UNSUPPORTED, "the filter '%.*s' is not supported", n, name.p);
  return tn_j_invoke(r, "filter", f, self, args, out);
}

bool tn_j_apply_test(tn_jrun *r, tn_js name, const tn_jv *self, const tn_jargs *args, bool *out)
{
  const tn_jbuiltin *f = tn_j_test(name);
  int n = (int)(name.n < 40 ? name.n : 40);
  tn_jv v = {0};
  if (!f) return tn_j_fail(r, TN_E_UNSUPPORTED, "the test '%.*s' is not supported", n, name.p);
  if (!tn_j_invoke(r, "test", f, self, args, &v)) return false;
  *out = tn_jv_true(&v);
  return true;
}
