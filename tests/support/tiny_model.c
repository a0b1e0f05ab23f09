/* tiny_model: see tiny_model.h. */
#include "tiny_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "quant/dtype.h"

static void *must(void *p)
{
  if (p) return p;
  fprintf(stderr, "tiny_model: no memory\n");
  exit(1);
}

static tiny_spec filled(const tiny_spec *in)
{
  tiny_spec s = *in;
  if (!s.arch) s.arch = "llama";
  if (!s.layers) s.layers = 3;
  if (!s.d) s.d = 64;
  if (!s.heads) s.heads = 4;
  if (!s.kv_heads) s.kv_heads = 2;
  if (!s.dh) s.dh = 16;
  if (!s.ff) s.ff = 128;
  if (!s.vocab) s.vocab = 96;
  return s;
}

static uint32_t next(uint32_t *state) { return *state = *state * 1664525u + 1013904223u; }

/* In [-1, 1). */
static float uniform(uint32_t *state) { return (float)(next(state) >> 8) / 8388608.0f - 1.0f; }

static int64_t dim(const tiny_spec *s, uint32_t d)
{
  switch (d) {
    case TN_DIM_D: return s->d;
    case TN_DIM_Q: return (int64_t)s->heads * s->dh;
    case TN_DIM_KV: return (int64_t)s->kv_heads * s->dh;
    case TN_DIM_DH: return s->dh;
    case TN_DIM_FF: return s->ff;
    case TN_DIM_VOCAB: return s->vocab;
    case TN_DIM_ROPE_HALF: return s->dh / 2;
    default: return 1;
  }
}

/* n blocks of 32 weights of about 1/16: an f16 scale and whatever codes. */
static void fill_blocks(uint8_t *p, size_t n, uint32_t block_bytes, uint32_t *state)
{
  for (size_t i = 0; i < n; i++) {
    uint16_t scale = tnk_f32_to_f16(block_bytes > 20 ? 0.0008f : 0.01f);
    memcpy(p + i * block_bytes, &scale, sizeof scale);
    for (uint32_t j = 2; j < block_bytes; j++) p[i * block_bytes + j] = (uint8_t)(next(state) >> 24);
  }
}

static void put_weights(gguf_writer *w, const char *name, uint32_t dtype, int64_t k, int64_t n, bool norm,
                        uint32_t *state)
{
  tnk_dtype_info d = tnk_dtype(dtype);
  int64_t ne[2] = {k, n};
  size_t count = (size_t)(k * n), bytes = count / d.block * d.block_bytes;
  uint8_t *data = must(malloc(bytes ? bytes : 1));
  if (dtype == TN_DT_F32) {
    float scale = norm ? 0.25f : 1.5f / sqrtf((float)k);
    for (size_t i = 0; i < count; i++) {
      float f = uniform(state) * scale + (norm ? 1.0f : 0.0f);
      memcpy(data + i * sizeof f, &f, sizeof f);
    }
  } else {
    fill_blocks(data, count / d.block, d.block_bytes, state);
  }
  gguf_put_tensor(w, name, dtype, n == 1 ? 1 : 2, ne, data, bytes);
  free(data);
}

static void put_part(gguf_writer *w, const tiny_spec *s, uint32_t part, uint32_t layer, uint32_t *state)
{
  const tn_part_info *info = tn_part(part);
  char stem[48], name[64];
  bool vector = info->n == TN_DIM_ONE;
  if (info->in_layer)
    snprintf(stem, sizeof stem, "blk.%u.%s", layer, info->file);
  else
    snprintf(stem, sizeof stem, "%s", info->file);
  snprintf(name, sizeof name, "%s.weight", stem);
  put_weights(w, name, vector ? TN_DT_F32 : s->dtype, dim(s, info->k), dim(s, info->n), vector, state);
  bool wanted = s->biases || (tn_arch_find((tn_str){s->arch, strlen(s->arch)})->biases & TN_PART_BIT(part));
  if (vector || info->role == TN_ROLE_EMBED || !wanted) return;
  snprintf(name, sizeof name, "%s.bias", stem);
  put_weights(w, name, TN_DT_F32, dim(s, info->n), 1, false, state);
}

static void put_meta(gguf_writer *w, const tiny_spec *s)
{
  const struct {
    const char *suffix;
    uint32_t v;
  } counts[] = {{"block_count", s->layers},
                {"context_length", 256},
                {"embedding_length", s->d},
                {"feed_forward_length", s->ff},
                {"attention.head_count", s->heads},
                {"attention.head_count_kv", s->kv_heads},
                {"attention.key_length", s->dh},
                {"attention.value_length", s->dh},
                {"attention.sliding_window", s->window}};
  char key[96];
  gguf_put_str(w, "general.architecture", s->arch);
  for (size_t i = 0; i < TN_ARRAY_LEN(counts); i++) {
    snprintf(key, sizeof key, "%s.%s", s->arch, counts[i].suffix);
    if (counts[i].v) gguf_put_u32(w, key, counts[i].v);
  }
  snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", s->arch);
  gguf_put_f32(w, key, 1e-5f);
}

gguf_writer *tiny_writer(const tiny_spec *spec)
{
  tiny_spec s = filled(spec);
  gguf_writer *w = gguf_writer_new();
  const tn_arch *a = tn_arch_find((tn_str){s.arch, strlen(s.arch)});
  uint32_t state = 12345, has = a->required | (s.head ? TN_PART_BIT(TN_PART_OUTPUT) : 0);
  put_meta(w, &s);
  for (uint32_t layer = 0; layer <= s.layers; layer++) { /* 0: the parts outside the layers */
    for (uint32_t p = 0; p < TN_N_PARTS; p++) {
      if (!(has & TN_PART_BIT(p)) || tn_part(p)->in_layer != (layer > 0)) continue;
      put_part(w, &s, p, layer ? layer - 1 : 0, &state);
    }
  }
  return w;
}

tn_model *tiny_open_writer(gguf_writer *w, void **bytes, tn_err *err)
{
  size_t n = 0;
  tn_model *m = NULL;
  *bytes = gguf_writer_bytes(w, &n);
  gguf_writer_free(w);
  tn_model_open_mem(*bytes, n, "tiny.gguf", &m, err);
  return m;
}

tn_model *tiny_open(const tiny_spec *spec, void **bytes)
{
  tn_err err = tn_err_init();
  tn_model *m = tiny_open_writer(tiny_writer(spec), bytes, &err);
  if (m) return m;
  fprintf(stderr, "tiny_model: %s\n", err.msg);
  exit(1);
}

void tiny_put_tokenizer(gguf_writer *w, uint32_t n)
{
  char(*text)[16] = must(calloc(n, sizeof *text));
  const char **texts = must(calloc(n, sizeof *texts));
  int32_t *type = must(calloc(n, sizeof *type));
  float *score = must(calloc(n, sizeof *score));
  for (uint32_t i = 0; i < n; i++) {
    static const char *const control[] = {"<unk>", "<s>", "</s>"};
    if (i < 3)
      snprintf(text[i], sizeof text[i], "%s", control[i]);
    else if (i < 259)
      snprintf(text[i], sizeof text[i], "<0x%02X>", i - 3);
    else
      snprintf(text[i], sizeof text[i], "piece%u", i);
    texts[i] = text[i];
    type[i] = i == 0 ? 2 : i < 3 ? 3 : i < 259 ? 6 : 1;
  }
  gguf_put_str(w, "tokenizer.ggml.model", "llama");
  gguf_put_strs(w, "tokenizer.ggml.tokens", texts, n);
  gguf_put_i32s(w, "tokenizer.ggml.token_type", type, n);
  gguf_put_f32s(w, "tokenizer.ggml.scores", score, n);
  gguf_put_u32(w, "tokenizer.ggml.unknown_token_id", 0);
  gguf_put_u32(w, "tokenizer.ggml.bos_token_id", 1);
  gguf_put_u32(w, "tokenizer.ggml.eos_token_id", 2);
  free(text);
  free(texts);
  free(type);
  free(score);
}

void tiny_write(gguf_writer *w, char path[TINY_PATH])
{
  size_t n = 0;
  void *bytes = gguf_writer_bytes(w, &n);
  gguf_writer_free(w);
  strcpy(path, "/tmp/tenon-tiny-XXXXXX.gguf");
  int fd = mkstemps(path, 5);
  if (fd < 0 || write(fd, bytes, n) != (ssize_t)n || close(fd) != 0) {
    fprintf(stderr, "tiny_model: %s cannot be written\n", path);
    exit(1);
  }
  free(bytes);
}

/* A group and its arrays in one allocation. */
typedef struct tiny_group {
  tn_kv_group g;
  uint32_t pool;
  tn_layout layout;
  const tn_layout *layout_ptr;
  int32_t layers[TN_MAX_LAYERS], heads[TN_MAX_HEADS];
} tiny_group;

tn_kv_group **tiny_groups(const tn_model *m, uint32_t kv_head0, uint32_t n_kv_heads, uint32_t dtype, uint32_t *n)
{
  const tn_model_shape *s = &m->shape;
  tn_kv_group **out = must(calloc(s->n_classes, sizeof *out));
  for (uint32_t c = 0; c < s->n_classes; c++) {
    tiny_group *t = must(calloc(1, sizeof *t));
    t->layout = (tn_layout){.struct_size = sizeof t->layout, .kind = TN_LAY_DENSE, .dtype = dtype};
    t->layout_ptr = &t->layout;
    t->pool = c;
    t->g = (tn_kv_group){.struct_size = sizeof t->g,
                         .kind = TN_KV_CACHE,
                         .n_heads = n_kv_heads,
                         .d_k = s->d_head,
                         .d_v = s->d_head,
                         .keys = TN_KEYS_ROTATED,
                         .n_layouts = 1,
                         .layers = t->layers,
                         .heads = t->heads,
                         .pools = &t->pool,
                         .k_layouts = &t->layout_ptr,
                         .v_layouts = &t->layout_ptr};
    for (uint32_t h = 0; h < n_kv_heads; h++) t->heads[h] = (int32_t)(kv_head0 + h);
    for (uint32_t l = 0; l < s->n_layers; l++)
      if (s->layer_class[l] == c) t->layers[t->g.n_layers++] = (int32_t)l;
    out[c] = &t->g;
  }
  *n = s->n_classes;
  return out;
}

void tiny_groups_free(tn_kv_group **groups, uint32_t n)
{
  for (uint32_t i = 0; groups && i < n; i++) free(groups[i]); /* g is a tiny_group's first member */
  free(groups);
}
