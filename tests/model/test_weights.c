/* weights: what reaches the backend without a quantizer, for one rank and for several, and that nothing stays behind. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "builder_help.h"
#include "support/fake_backend.h"
#include "model/weights.h"
#include "quant/dtype.h"

static fixture f;
static fake_backend back;

static void finish(void)
{
  fake_reset(&back);
  fixture_close(&f);
}
TestSuite(weights, .fini = finish);

static tn_weights_job job_of(const tn_built *b)
{
  return (tn_weights_job){.model = f.model, .built = b, .backend = &fake_backend_v1, .backend_inst = fake_inst(&back)};
}

static tn_weights *must_load(const tn_weights_job *job)
{
  tn_err err = tn_err_init();
  tn_weights *w = NULL;
  cr_assert(tn_weights_load(job, &w, &err) == TN_OK, "%s", err.msg);
  return w;
}

static void expect_load_fails(const tn_weights_job *job, tn_status st, const char *says)
{
  tn_err err = tn_err_init();
  tn_weights *w = NULL;
  cr_expect(tn_weights_load(job, &w, &err) == st, "want %s, got %s", says, err.msg);
  cr_expect(strstr(err.msg, says) != NULL, "want '%s', got '%s'", says, err.msg);
  cr_expect(w == NULL);
  cr_expect(eq(u32, back.live, 0));
  cr_expect(eq(i32, tn_weights_load(job, &w, NULL), st), "without an error text");
}

Test(weights, come_from_the_mapping)
{
  f = fixture_open(&(tiny_spec){.dtype = TN_DT_Q8_0});
  tn_build in = fixture_build(&f);
  tn_built *b = must_build(&in);
  tn_weights_job job = job_of(b);
  tn_weights *w = must_load(&job);
  cr_expect(eq(u32, back.n, b->program.n_weights));
  for (uint32_t i = 0; i < back.n; i++) {
    const tn_weight_src *s = &back.w[i].src;
    const tn_weight_need *need = &b->needs[i];
    bool norm = need->role == TN_ROLE_NORM;
    cr_expect(back.w[i].given == need->tensor->data, "%s is copied", s->name);
    cr_expect(s->flags == TN_WF_STABLE && s->bytes == need->tensor->bytes, "%s", s->name);
    cr_expect(s->kind == (norm ? TN_W_F32 : TN_W_FILE) && s->dtype == need->tensor->dtype, "%s", s->name);
    cr_expect(s->n == need->n && s->k == need->k && s->role == need->role, "%s", s->name);
  }
  tn_weights_stats stat = tn_weights_stat(w);
  cr_expect(eq(u32, stat.n_tensors, back.n));
  cr_expect(eq(u32, stat.n_quantized, 0));
  uint64_t bytes = 0;
  for (uint64_t i = 0; i < tn_gguf_n_tensors(f.model->gguf); i++) bytes += tn_gguf_tensor_at(f.model->gguf, i)->bytes;
  cr_expect(eq(u64, stat.file_bytes, bytes));
  tn_weights_free(w);
  cr_expect(eq(u32, back.live, 0));
  tn_weights_free(NULL);
  tn_built_free(b);
}

Test(weights, bind_points_the_program_at_them)
{
  f = fixture_open(&(tiny_spec){0});
  tn_build in = fixture_build(&f);
  tn_built *b = must_build(&in);
  in.flags = TN_BUILD_OBSERVE_ALL;
  tn_built *other = must_build(&in);
  tn_weights_job job = job_of(b);
  tn_weights *w = must_load(&job);
  cr_expect(eq(i32, tn_weights_bind(w, b, NULL), TN_OK));
  cr_expect(eq(i32, tn_weights_bind(w, other, NULL), TN_OK));
  for (uint32_t i = 0; i < other->program.n_weights; i++) {
    uint64_t at = other->program.weights[i]->offset;
    cr_expect(eq(str, (char *)back.w[at - 1].name, (char *)other->needs[i].name));
    cr_expect(b->program.weights[i] == other->program.weights[i]);
  }
  cr_expect(tn_weights_find(w, "blk.1.attn_q.weight") == b->program.weights[11]);
  cr_expect(tn_weights_find(w, "blk.9.attn_q.weight") == NULL);
  tn_weights_free(w);
  tn_built_free(b);
  tn_built_free(other);
}

Test(weights, bind_refuses_what_is_not_loaded)
{
  f = fixture_open(&(tiny_spec){.dh = 32, .heads = 4, .kv_heads = 2});
  tn_par_plan half = tn_par_whole(f.model);
  tn_build in = fixture_build(&f);
  tn_built *b = must_build(&in);
  half.world = 2;
  half.n_heads = 2;
  half.n_kv_heads = 1;
  in.par = &half;
  tn_built *other = must_build(&in);
  tn_weights_job job = job_of(b);
  tn_weights *w = must_load(&job);
  tn_err err = tn_err_init();
  cr_expect(eq(i32, tn_weights_bind(w, other, &err), TN_E_ARG));
  cr_expect(eq(str, err.msg, "tensor blk.0.attn_q.weight, rows from 0, columns from 0 is not loaded"));
  tn_weights_free(w);
  tn_built_free(b);
  tn_built_free(other);
}

/* Rank r of 2 of the fixture's model. */
static tn_par_plan half_of(uint32_t r)
{
  tn_par_plan p = tn_par_whole(f.model);
  p.world = 2;
  p.rank = r;
  p.n_heads /= 2, p.head0 = r * p.n_heads;
  p.n_kv_heads /= 2, p.kv_head0 = r * p.n_kv_heads;
  p.n_ff /= 2, p.ff0 = r * p.n_ff;
  p.n_vocab /= 2, p.vocab0 = r * p.n_vocab;
  return p;
}

/* The file's rows and columns of a need, decoded. The caller frees. */
static float *expected(const tn_weight_need *need)
{
  const tn_shard *s = &need->shard;
  float *all = calloc((size_t)(need->n * need->k), sizeof *all);
  float *part = calloc((size_t)(s->n_rows * s->n_cols), sizeof *part);
  cr_assert(all && part && tnk_decode(need->tensor->dtype, need->tensor->data, all, (size_t)(need->n * need->k)));
  for (int64_t r = 0; r < s->n_rows; r++)
    memcpy(part + r * s->n_cols, all + (s->row0 + r) * need->k + s->col0, (size_t)s->n_cols * sizeof *part);
  free(all);
  return part;
}

static void each_rank_gets_its_share(uint32_t dtype)
{
  f = fixture_open(&(tiny_spec){.arch = "qwen2", .dh = 32, .heads = 4, .kv_heads = 2, .head = true, .dtype = dtype});
  for (uint32_t r = 0; r < 2; r++) {
    tn_par_plan p = half_of(r);
    tn_build in = fixture_build(&f);
    in.par = &p;
    tn_built *b = must_build(&in);
    tn_weights_job job = job_of(b);
    tn_weights *w = must_load(&job);
    for (uint32_t i = 0; i < back.n; i++) {
      const tn_weight_src *s = &back.w[i].src;
      size_t n = (size_t)(s->n * s->k);
      float *want = expected(&b->needs[i]), *got = calloc(n, sizeof *got);
      cr_assert(got && tnk_decode(s->dtype, s->data, got, n));
      cr_expect(memcmp(want, got, n * sizeof *got) == 0, "rank %u: %s", r, s->name);
      cr_expect(s->flags == (b->needs[i].shard.kind == TN_SHARD_COLS && s->n > 1 ? 0 : TN_WF_STABLE), "%s", s->name);
      free(want);
      free(got);
    }
    cr_expect(eq(i64, fake_find(&back, "blk.0.ffn_down.weight")->src.k, 64));
    cr_expect(eq(i64, fake_find(&back, "blk.0.attn_q.bias")->src.k, 64));
    tn_weights_free(w);
    tn_built_free(b);
    fake_reset(&back);
  }
}

Test(weights, shares_of_f32) { each_rank_gets_its_share(TN_DT_F32); }
Test(weights, shares_of_q8_0) { each_rank_gets_its_share(TN_DT_Q8_0); }
Test(weights, shares_of_q4_0) { each_rank_gets_its_share(TN_DT_Q4_0); }

/* Norms of another type than f32 are decoded. */
Test(weights, norms_become_f32)
{
  static const int64_t ne[1] = {64};
  uint16_t half[64];
  tn_err err = tn_err_init();
  gguf_writer *w = tiny_writer(&(tiny_spec){0});
  for (int i = 0; i < 64; i++) half[i] = tnk_f32_to_f16((float)i);
  gguf_put_tensor(w, "output_norm.weight", TN_DT_F16, 1, ne, half, sizeof half);
  f.model = tiny_open_writer(w, &f.bytes, &err);
  f.groups = tiny_groups(f.model, 0, 2, TN_DT_F16, &f.n_groups);
  tn_build in = fixture_build(&f);
  tn_built *b = must_build(&in);
  tn_weights_job job = job_of(b);
  tn_weights *loaded = must_load(&job);
  const tn_weight_src *s = &fake_find(&back, "output_norm.weight")->src;
  cr_expect(eq(u32, s->kind, TN_W_F32));
  cr_expect(eq(u32, s->flags, 0));
  for (int i = 0; i < 64; i++) cr_expect(eq(flt, ((const float *)s->data)[i], (float)i));
  tn_weights_free(loaded);
  tn_built_free(b);
}

Test(weights, a_cut_inside_a_block_is_refused)
{
  f = fixture_open(&(tiny_spec){.dh = 32, .heads = 2, .kv_heads = 2, .dtype = TN_DT_Q8_0});
  tn_par_plan p = half_of(0);
  tn_build in = fixture_build(&f);
  in.par = &p;
  tn_built *b = must_build(&in);
  for (uint32_t i = 0; i < b->program.n_weights; i++) { /* a plan that tn_par_check does not let through */
    tn_weight_need *need = (tn_weight_need *)&b->needs[i];
    if (need->role == TN_ROLE_ATTN_OUT) need->shard.n_cols = 24;
  }
  tn_weights_job job = job_of(b);
  expect_load_fails(&job, TN_E_UNSUPPORTED,
                    "tensor blk.0.attn_output.weight: columns 0 to 23 of a rank cut the blocks of 32 of type q8_0");
  tn_built_free(b);
}

Test(weights, a_failure_frees_what_was_loaded)
{
  f = fixture_open(&(tiny_spec){0});
  tn_build in = fixture_build(&f);
  tn_built *b = must_build(&in);
  tn_weights_job job = job_of(b);
  for (uint32_t at = 1; at <= b->program.n_weights; at += 7) {
    fake_reset(&back);
    back.fail_at = at;
    tn_err err = tn_err_init();
    tn_weights *w = NULL;
    cr_expect(eq(i32, tn_weights_load(&job, &w, &err), TN_E_DEVICE));
    cr_expect(eq(u32, back.live, 0));
    cr_expect(eq(u32, back.n, at - 1));
    cr_expect(strstr(err.msg, b->needs[at - 1].name) && strstr(err.msg, "the device is full"), "%s", err.msg);
  }
  tn_built_free(b);
}

typedef struct watch {
  double last, limit;
  uint32_t calls;
} watch;

static bool on_progress(void *ctx, double done)
{
  watch *w = ctx;
  cr_expect(done >= w->last && done <= 1);
  w->last = done;
  w->calls++;
  return done <= w->limit;
}

Test(weights, progress_counts_and_cancels)
{
  f = fixture_open(&(tiny_spec){0});
  tn_build in = fixture_build(&f);
  tn_built *b = must_build(&in);
  tn_weights_job job = job_of(b);
  watch all = {.limit = 1}, some = {.limit = 0.5}, again = some;
  job.progress = on_progress;
  job.progress_ctx = &all;
  tn_weights_free(must_load(&job));
  cr_expect(eq(dbl, all.last, 1.0));
  cr_expect(eq(u32, all.calls, b->program.n_weights + 1));
  job.progress_ctx = &some;
  tn_err err = tn_err_init();
  tn_weights *w = NULL;
  cr_expect(eq(i32, tn_weights_load(&job, &w, &err), TN_E_STATE));
  cr_expect(eq(str, err.msg, "tiny.gguf: loading was cancelled"));
  cr_expect(some.last > again.limit && some.last < 1);
  cr_expect(eq(u32, back.live, 0));
  tn_built_free(b);
}

/* Matrices have keys that tell each rank's share apart, vectors none. */
Test(weights, keys)
{
  f = fixture_open(&(tiny_spec){.dtype = TN_DT_Q8_0});
  tn_build in = fixture_build(&f);
  tn_built *b = must_build(&in);
  tn_weights_job job = job_of(b);
  tn_weights_free(must_load(&job));
  for (uint32_t i = 0; i < back.n; i++) cr_expect(back.w[i].key[0] == '\0', "%s has a key unasked", back.w[i].name);
  fake_reset(&back);
  job.keep = true;
  tn_weights_free(must_load(&job));
  for (uint32_t i = 0; i < back.n; i++) {
    bool norm = b->needs[i].role == TN_ROLE_NORM, none = back.w[i].key[0] == '\0';
    cr_expect(none == norm, "%s", back.w[i].name);
    for (uint32_t k = 0; k < i && back.w[i].key[0]; k++) cr_expect(ne(str, back.w[i].key, back.w[k].key));
  }
  const fake_weight *q = fake_find(&back, "blk.0.attn_q.weight");
  char want[128];
  snprintf(want, sizeof want, "blk.0.attn_q.weight rows 0+%lld columns 0+%lld", (long long)q->src.n,
           (long long)q->src.k);
  cr_expect(eq(str, (char *)q->key, want));
  tn_built_free(b);
}

/* Those that are kept are not read; those that are not come as ever. */
Test(weights, kept_ones_are_asked_for_first)
{
  f = fixture_open(&(tiny_spec){.dtype = TN_DT_Q8_0});
  tn_build in = fixture_build(&f);
  tn_built *b = must_build(&in);
  tn_weights_job job = job_of(b);
  job.keep = job.kept = true;
  tn_weights *w = must_load(&job);
  cr_expect(eq(u32, tn_weights_stat(w).n_kept, 0));
  cr_expect(eq(u32, back.n, b->program.n_weights));
  for (uint32_t i = 0; i < back.n; i++) cr_expect(back.w[i].src.flags == TN_WF_STABLE && back.w[i].given != NULL);
  tn_weights_free(w);
  fake_reset(&back);
  back.has_kept = true;
  w = must_load(&job);
  uint32_t n = 0;
  for (uint32_t i = 0; i < back.n; i++) {
    bool norm = b->needs[i].role == TN_ROLE_NORM;
    n += !norm;
    cr_expect(back.w[i].src.flags == (norm ? TN_WF_STABLE : TN_WF_KEPT), "%s", back.w[i].name);
    cr_expect(norm == (back.w[i].given != NULL), "%s", back.w[i].name);
  }
  cr_expect(eq(u32, tn_weights_stat(w).n_kept, n));
  tn_weights_free(w);
  tn_built_free(b);
}
