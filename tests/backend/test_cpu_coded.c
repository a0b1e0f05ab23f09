/* The cpu backend's 8-bit cache: read in place from pages of whole blocks, it gives the bits that gathered entries give. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

#include "attn_rig.h"

enum { T = 150, H = 6, G = 2, D = 32, QW = H * D, KW = G * D };

static float q[T * QW], k[T * KW], v[T * KW], out[T * QW], want[T * QW];

static void feed(const attn_cfg *c, int64_t chunk, float *o)
{
  attn a;
  rig_seq s;
  rig_fill(q, T * QW, 1);
  rig_fill(k, T * KW, 2);
  rig_fill(v, T * KW, 3);
  attn_open(&a, c);
  rig_seq_init(&s, 1, a.p.pr.n_groups, 0, (T + (int)a.cfg.page_tokens - 1) / (int)a.cfg.page_tokens);
  attn_feed(&a, &s, T, chunk, q, NULL, k, v, o, NULL);
  attn_close(&a);
}

Test(cpu_coded, in_place_equals_gathered)
{
  static const uint32_t groups[3] = {0, 16, 32}, pages[3] = {16, 32, 64};
  for (int i = 0; i < 3; i++) {
    const tn_layout lay = {
        .struct_size = sizeof lay, .kind = TN_LAY_AFFINE, .bits = 8, .group = groups[i], .scale_type = TN_DT_F16};
    attn_cfg c = {.backend = "cpu", .n_heads = H, .n_kv = G, .d_head = D, .d_v = D, .k_lay = {&lay}, .v_lay = {&lay}};
    c.page_tokens = 15; /* no whole blocks: packed entries */
    feed(&c, 40, want);
    c.page_tokens = pages[i];
    for (int64_t chunk = 1; chunk <= T; chunk = chunk * 3 + 1) {
      feed(&c, chunk, out);
      cr_assert(eq(i32, memcmp(out, want, sizeof out), 0), "group %u, chunks of %d", groups[i], (int)chunk);
    }
  }
}

/* Two scale types or offsets keep packed entries: their results stay those of any page size. */
Test(cpu_coded, others_stay_packed)
{
  const tn_layout lay = {
      .struct_size = sizeof lay, .kind = TN_LAY_AFFINE, .bits = 8, .scale_type = TN_DT_F16, .offset = TN_OFF_MIN};
  attn_cfg c = {.backend = "cpu", .n_heads = H, .n_kv = G, .d_head = D, .d_v = D, .k_lay = {&lay}, .v_lay = {&lay}};
  c.page_tokens = 15;
  feed(&c, 40, want);
  c.page_tokens = 16;
  feed(&c, 40, out);
  cr_assert(eq(i32, memcmp(out, want, sizeof out), 0));
}
