/* shard: which plans can be built, and what each rank holds. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <string.h>

#include "model/shard.h"
#include "support/tiny_model.h"

static void *bytes;
static tn_model *m;

static void open_model(void) { m = tiny_open(&(tiny_spec){.dh = 32, .heads = 8, .kv_heads = 4, .ff = 256}, &bytes); }
static void close_model(void)
{
  tn_model_close(m);
  free(bytes);
}
TestSuite(shard, .init = open_model, .fini = close_model);

/* Rank r of n, of heads, channels and logits. */
static tn_par_plan rank_of(uint32_t r, uint32_t n)
{
  tn_par_plan p = tn_par_whole(m);
  p.world = n;
  p.rank = r;
  p.n_heads = 8 / n;
  p.head0 = r * p.n_heads;
  p.n_kv_heads = 4 / n;
  p.kv_head0 = r * p.n_kv_heads;
  p.n_ff = 256 / n;
  p.ff0 = r * p.n_ff;
  p.n_vocab = 96 / n;
  p.vocab0 = r * p.n_vocab;
  return p;
}

Test(shard, whole_is_whole)
{
  tn_par_plan p = tn_par_whole(m);
  cr_expect(eq(i32, tn_par_check(m, &p, NULL), TN_OK));
  cr_expect(not(tn_par_splits_heads(m, &p) || tn_par_splits_ff(m, &p) || tn_par_splits_vocab(m, &p)));
  for (uint32_t part = 0; part < TN_N_PARTS; part++) {
    tn_shard s = tn_shard_of(m, &p, part);
    cr_expect(s.kind == TN_SHARD_COPY && s.row0 == 0 && s.col0 == 0, "%s", tn_part(part)->file);
    cr_expect(s.n_rows == tn_model_dim(m, tn_part(part)->n) && s.n_cols == tn_model_dim(m, tn_part(part)->k));
  }
}

static void expect_shard(tn_shard s, uint32_t kind, int64_t row0, int64_t n_rows, int64_t col0, int64_t n_cols)
{
  cr_expect(eq(u32, s.kind, kind));
  cr_expect(eq(i64, s.row0, row0));
  cr_expect(eq(i64, s.n_rows, n_rows));
  cr_expect(eq(i64, s.col0, col0));
  cr_expect(eq(i64, s.n_cols, n_cols));
}

Test(shard, rank_one_of_two)
{
  tn_par_plan p = rank_of(1, 2);
  tn_err err = tn_err_init();
  cr_assert(tn_par_check(m, &p, &err) == TN_OK, "%s", err.msg);
  expect_shard(tn_shard_of(m, &p, TN_PART_ATTN_Q), TN_SHARD_ROWS, 128, 128, 0, 64);
  expect_shard(tn_shard_of(m, &p, TN_PART_ATTN_K), TN_SHARD_ROWS, 64, 64, 0, 64);
  expect_shard(tn_shard_of(m, &p, TN_PART_ATTN_V), TN_SHARD_ROWS, 64, 64, 0, 64);
  expect_shard(tn_shard_of(m, &p, TN_PART_ATTN_OUT), TN_SHARD_COLS, 0, 64, 128, 128);
  expect_shard(tn_shard_of(m, &p, TN_PART_FFN_GATE), TN_SHARD_ROWS, 128, 128, 0, 64);
  expect_shard(tn_shard_of(m, &p, TN_PART_FFN_DOWN), TN_SHARD_COLS, 0, 64, 128, 128);
  expect_shard(tn_shard_of(m, &p, TN_PART_OUTPUT), TN_SHARD_ROWS, 48, 48, 0, 64);
  expect_shard(tn_shard_of(m, &p, TN_PART_TOKEN_EMBD), TN_SHARD_COPY, 0, 96, 0, 64);
  expect_shard(tn_shard_of(m, &p, TN_PART_ATTN_NORM), TN_SHARD_COPY, 0, 1, 0, 64);
  expect_shard(tn_shard_of_bias(m, &p, TN_PART_ATTN_K), TN_SHARD_COLS, 0, 1, 64, 64);
  expect_shard(tn_shard_of_bias(m, &p, TN_PART_ATTN_OUT), TN_SHARD_COPY, 0, 1, 0, 64);
}

Test(shard, ranks_cover_every_part_once)
{
  static const uint32_t worlds[3] = {1, 2, 4};
  for (int w = 0; w < 3; w++) {
    for (uint32_t part = 0; part < TN_N_PARTS; part++) {
      int64_t rows = 0, cols = 0;
      for (uint32_t r = 0; r < worlds[w]; r++) {
        tn_par_plan p = rank_of(r, worlds[w]);
        tn_shard s = tn_shard_of(m, &p, part);
        cr_assert(eq(i32, tn_par_check(m, &p, NULL), TN_OK));
        cr_expect(s.kind != TN_SHARD_ROWS || s.row0 == rows);
        cr_expect(s.kind != TN_SHARD_COLS || s.col0 == cols);
        rows += s.n_rows;
        cols += s.n_cols;
        if (s.kind == TN_SHARD_COPY) rows = s.n_rows, cols = s.n_cols;
      }
      tn_par_plan p = rank_of(0, worlds[w]);
      uint32_t kind = tn_shard_of(m, &p, part).kind;
      if (kind != TN_SHARD_COLS) cr_expect(eq(i64, rows, tn_model_dim(m, tn_part(part)->n)));
      if (kind != TN_SHARD_ROWS) cr_expect(eq(i64, cols, tn_model_dim(m, tn_part(part)->k)));
    }
  }
}

static void refused(tn_par_plan p, tn_status st, const char *says)
{
  tn_err err = tn_err_init();
  cr_expect(tn_par_check(m, &p, &err) == st, "%s: %s", says, err.msg);
  cr_expect(strstr(err.msg, says) != NULL, "want '%s', got '%s'", says, err.msg);
}

Test(shard, plans_that_cannot_be_built)
{
  tn_par_plan p;
  p = rank_of(1, 2), p.rank = 2;
  refused(p, TN_E_ARG, "rank 2 of 2");
  p = rank_of(1, 2), p.n_heads = 5;
  refused(p, TN_E_ARG, "rank 1: heads 4 to 8 of 8");
  p = rank_of(1, 2), p.n_heads = 3;
  refused(p, TN_E_UNSUPPORTED, "heads 4 to 6 are not those of KV heads 2 to 3 (2 heads each)");
  p = rank_of(1, 2), p.n_kv_heads = 0;
  refused(p, TN_E_ARG, "KV heads 2 to 1 of 4");
  p = rank_of(1, 2), p.ff0 = 100;
  refused(p, TN_E_UNSUPPORTED,
          "ffn_down sums over 256 columns in 4 segments, which columns 100 to 227 do not cover whole");
  p = rank_of(1, 2), p.n_ff = 200;
  refused(p, TN_E_ARG, "feed-forward channels 128 to 327 of 256");
  p = rank_of(1, 2), p.vocab0 = -1;
  refused(p, TN_E_ARG, "logits -1 to 46 of 96");
  p = tn_par_whole(m), p.layer1 = 4;
  refused(p, TN_E_ARG, "layers 0 to 3 of 3");
  p = tn_par_whole(m), p.layer0 = p.layer1;
  refused(p, TN_E_ARG, "layers 3 to 2 of 3");
  p = rank_of(1, 2), p.layer1 = 2;
  refused(p, TN_E_UNSUPPORTED, "divides both layers (0 to 1 of 3) and their contents");
  p = tn_par_whole(m), p.sequence = TN_SEQ_RING;
  refused(p, TN_E_UNSUPPORTED, "sequences divided among ranks (kind 1)");
}

Test(shard, sums_without_segments_cannot_be_divided)
{
  void *other;
  tn_model *one = tiny_open(&(tiny_spec){.dh = 16, .heads = 4, .kv_heads = 4}, &other); /* 64 columns: not 4 x 32 */
  tn_par_plan p = tn_par_whole(one);
  tn_err err = tn_err_init();
  p.world = 2;
  p.n_heads = p.n_kv_heads = 2;
  cr_expect(eq(i32, tn_par_check(one, &p, &err), TN_E_UNSUPPORTED));
  cr_expect(strstr(err.msg, "attn_out sums over 64 columns in 1 segments") != NULL, "%s", err.msg);
  tn_model_close(one);
  free(other);
}
