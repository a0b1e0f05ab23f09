/* Dynamic section and symbols of a file. */
#include "check/image.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static tn_image open_image(const char *plugin)
{
  char path[1024];
  tn_image img;
  tn_err err = tn_err_init();
  snprintf(path, sizeof path, "%s/tests/plugins/broken/%s.so", TN_BUILD_DIR, plugin);
  cr_assert(tn_image_open(&img, path, &err) == TN_OK, "%s", err.msg);
  return img;
}

/* Index of a dynamic symbol, 0: none. */
static size_t find(const tn_image *img, const char *name)
{
  for (size_t i = 1; i < img->n_sym; i++)
    if (strcmp(tn_image_name(img, i), name) == 0) return i;
  return 0;
}

Test(image, exports_imports_and_versions)
{
  tn_image img = open_image("imports");
  size_t entry = find(&img, TN_ENTRY_SYMBOL), puts_ = find(&img, "puts");
  cr_assert(entry != 0 && puts_ != 0);
  cr_expect(tn_image_exported(&img, entry));
  cr_expect(not(tn_image_exported(&img, puts_)));
  cr_expect(eq(str, (char *)tn_image_version(&img, entry), ""));
  const char *instrumented = getenv("TN_INSTRUMENTED");
  if (!instrumented || *instrumented != '1')
    cr_expect(strncmp(tn_image_version(&img, puts_), "GLIBC_2.", 8) == 0, "%s", tn_image_version(&img, puts_));
  tn_image_close(&img);
}

Test(image, dynamic_entries)
{
  tn_image img = open_image("run_path");
  uint64_t v;
  cr_assert(tn_image_dyn(&img, DT_RUNPATH, 0, &v) || tn_image_dyn(&img, DT_RPATH, 0, &v));
  cr_expect(eq(str, (char *)tn_image_str(&img, v), "lib"));
  cr_expect(not(tn_image_dyn(&img, DT_RUNPATH, 1, &v)), "there is one");
  cr_expect(not(tn_image_dyn(&img, DT_TEXTREL, 0, &v)));
  cr_expect(eq(str, (char *)tn_image_str(&img, UINT64_MAX), ""));
  tn_image_close(&img);
}

Test(image, a_file_that_is_none)
{
  tn_image img;
  tn_err err = tn_err_init();
  cr_expect(tn_image_open(&img, "/nonexistent.so", &err) == TN_E_IO);
  tn_image_close(&img);
  cr_expect(tn_image_open(&img, "/proc/self/cmdline", &err) == TN_E_UNSUPPORTED);
  tn_image_close(&img);
}
