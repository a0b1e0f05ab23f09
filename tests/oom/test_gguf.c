/* Opening a split model with each allocation failing in turn: TN_E_NOMEM, and nothing stays behind. */
#include "model/gguf.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "oom.h"
#include "support/gguf_writer.h"

static char folder[64];

static void path_of(uint32_t no, char path[128]) { snprintf(path, 128, "%s/m-%05u-of-00002.gguf", folder, no + 1); }

static void write_part(uint32_t no)
{
  char path[128], name[8];
  snprintf(name, sizeof name, "t%u", no);
  gguf_writer *w = gguf_writer_new();
  gguf_put_u32(w, "split.no", no);
  gguf_put_u32(w, "split.count", 2);
  gguf_put_u32(w, "split.tensors.count", 2);
  gguf_put_tensor(w, name, 0, 1, (int64_t[]){8}, NULL, 32);
  size_t n;
  void *bytes = gguf_writer_bytes(w, &n);
  gguf_writer_free(w);
  path_of(no, path);
  FILE *f = fopen(path, "wb");
  cr_assert(f != NULL && fwrite(bytes, 1, n, f) == n && fclose(f) == 0);
  free(bytes);
}

static void write_parts(void)
{
  snprintf(folder, sizeof folder, "/tmp/tenon-oom-XXXXXX");
  cr_assert(mkdtemp(folder) != NULL);
  for (uint32_t no = 0; no < 2; no++) write_part(no);
}

static void remove_parts(void)
{
  char path[128];
  for (uint32_t no = 0; no < 2; no++) {
    path_of(no, path);
    unlink(path);
  }
  rmdir(folder);
}

Test(oom_gguf, open_split, .init = write_parts, .fini = remove_parts)
{
  char path[128];
  path_of(1, path);
  uint64_t n = 0;
  for (bool fired = true; fired;) {
    int64_t live = oom_live();
    tn_gguf *g = NULL;
    tn_err err = tn_err_init();
    oom_arm(++n);
    tn_status st = tn_gguf_open(path, &g, &err);
    fired = oom_fired();
    cr_expect(eq(int, st, fired ? TN_E_NOMEM : TN_OK), "allocation %lu: %s", (unsigned long)n, err.msg);
    cr_expect(fired ? g == NULL && strstr(err.msg, "memory") : g != NULL, "allocation %lu: %s", (unsigned long)n,
              err.msg);
    if (g) cr_expect(eq(u64, tn_gguf_n_tensors(g), 2));
    tn_gguf_close(g);
    cr_expect(oom_live() == live, "allocation %lu", (unsigned long)n);
  }
  cr_expect(n > 15);
}
