/* attention.layers: ranges, and the sentence for each fault. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <string.h>

#include "compose/compose_int.h"

/* "0-4 full, ..." with the ends as parsed, or the refusal. */
static char *ranges(const char *text, uint32_t n_layers)
{
  static char buf[512];
  tn_layer_range r[TN_MAX_LAYER_PARTS];
  uint32_t n;
  tn_err err = tn_err_init();
  buf[0] = '\0';
  if (tn_layers_parse(text, n_layers, r, &n, &err)) {
    snprintf(buf, sizeof buf, "%s", err.msg);
    return buf;
  }
  for (uint32_t i = 0; i < n; i++) {
    size_t at = strlen(buf);
    char end[16] = "end";
    if (r[i].layer1 != TN_LAYER_END) snprintf(end, sizeof end, "%u", r[i].layer1);
    snprintf(buf + at, sizeof buf - at, "[%u,%s)%.*s ", r[i].layer0, end, (int)r[i].name.n, r[i].name.p);
  }
  return buf;
}

Test(layers, accepted)
{
  cr_assert(eq(str, ranges("0-3:a, 4-29:b", 30), "[0,4)a [4,end)b "));
  cr_assert(eq(str, ranges("0-3:a, 4-29:b", 0), "[0,4)a [4,30)b "));
  cr_assert(eq(str, ranges(" 0 : a ,1 - 2: b,3 - :c ", 9), "[0,1)a [1,3)b [3,end)c "));
  cr_assert(eq(str, ranges("0-:a", 0), "[0,end)a "));
  cr_assert(eq(str, ranges("0-1:a,2-3:a,4:b", 5), "[0,4)a [4,end)b "));
}

Test(layers, refused)
{
#define FORM " is no range of layers with a plugin, such as 0-3:name"
  cr_assert(eq(str, ranges("0-3", 0), "'0-3'" FORM));
  cr_assert(eq(str, ranges("0-3:A", 0), "'0-3:A'" FORM));
  cr_assert(eq(str, ranges("3-0:a", 0), "'3-0:a'" FORM));
  cr_assert(eq(str, ranges("-3:a", 0), "'-3:a'" FORM));
  cr_assert(eq(str, ranges("0-3-4:a", 0), "'0-3-4:a'" FORM));
  cr_assert(eq(str, ranges("0-9999:a", 0), "'0-9999:a'" FORM));
  cr_assert(eq(str, ranges("0:a,,1:b", 0), "''" FORM));
  cr_assert(eq(str, ranges("0:a,", 0), "nothing follows the last comma"));
  cr_assert(eq(str, ranges("", 0), "names no layers"));
  cr_assert(eq(str, ranges("1-3:a", 0), "'1-3:a' begins with layer 1, expected 0: ranges ascend without gaps"));
  cr_assert(eq(str, ranges("0-3:a,5:b", 0), "'5:b' begins with layer 5, expected 4: ranges ascend without gaps"));
  cr_assert(eq(str, ranges("0-3:a,3:b", 0), "'3:b' begins with layer 3, expected 4: ranges ascend without gaps"));
  cr_assert(eq(str, ranges("0-:a,4:b", 0), "'4:b' follows a range that goes on to the last layer"));
  cr_assert(eq(str, ranges("0-3:a", 30), "the ranges end with layer 3, the model's last layer is 29"));
  cr_assert(eq(str, ranges("0-30:a", 30), "the ranges end with layer 30, the model's last layer is 29"));
  cr_assert(eq(str, ranges("0-29:a,30-:b", 30), "layer 30: the model has 30 layers, 0 to 29"));
  char many[2048] = "";
  for (int i = 0; i < 66; i++) snprintf(many + strlen(many), 16, "%s%d:%c", i ? "," : "", i, 'a' + i % 2);
  cr_assert(eq(str, ranges(many, 0), "over 64 ranges"));
}
