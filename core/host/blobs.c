/* blobs: reading. See blobs.h. */
#include "blobs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "blobs_int.h"
#include "sha256.h"

struct tn_blobs {
  const uint8_t *base; /* [bytes], mapped */
  uint64_t bytes, n;
  const tn_blob *index; /* [n], in the mapping */
};

/* ---------------------------------------------------------------- sums */

enum { CHUNK = 1 << 20, LANES = 8, LINE = LANES * 8 };
static const uint64_t PRIME = 0x9E3779B97F4A7C15u;

/* Eight sums side by side, each step of which is a bijection of the word taken. */
static uint64_t chunk_sum(const uint8_t *p, size_t n, uint64_t seed)
{
  uint64_t h[LANES], r = (seed + n) * PRIME;
  for (int i = 0; i < LANES; i++) h[i] = seed ^ (uint64_t)i;
  for (; n >= LINE; n -= LINE, p += LINE) {
    uint64_t w[LANES];
    memcpy(w, p, LINE);
    for (int i = 0; i < LANES; i++) h[i] = (h[i] ^ w[i]) * PRIME;
  }
  for (; n > 0; n--, p++) h[n % LANES] = (h[n % LANES] ^ *p) * PRIME;
  for (int i = 0; i < LANES; i++) r = ((r ^ h[i]) * PRIME) ^ (r >> 29);
  return r ^ r >> 32;
}

typedef struct sum_job {
  const uint8_t *p;
  uint64_t bytes;
  uint64_t part[256]; /* [workers] */
} sum_job;

static void sum_share(void *arg, uint32_t worker, uint32_t n_workers)
{
  sum_job *j = arg;
  uint64_t chunks = (j->bytes + CHUNK - 1) / CHUNK, sum = 0;
  for (uint64_t c = chunks * worker / n_workers; c < chunks * (worker + 1) / n_workers; c++) {
    uint64_t at = c * CHUNK, left = j->bytes - at;
    sum += chunk_sum(j->p + at, left < CHUNK ? (size_t)left : CHUNK, c);
  }
  j->part[worker] = sum;
}

uint64_t tn_blob_sum(const void *p, uint64_t bytes, tn_pool *pool)
{
  sum_job j = {.p = p, .bytes = bytes};
  uint64_t sum = 0;
  if (pool && bytes > CHUNK)
    tn_pool_gang(pool, sum_share, &j);
  else
    sum_share(&j, 0, 1);
  for (size_t i = 0; i < TN_ARRAY_LEN(j.part); i++) sum += j.part[i];
  return sum;
}

/* ---------------------------------------------------------------- the file */

static void head_digest(const tn_blobs_head *h, uint8_t out[32])
{
  tn_sha256 sha;
  tn_sha256_init(&sha);
  tn_sha256_update(&sha, h, offsetof(tn_blobs_head, head_sum));
  tn_sha256_final(&sha, out);
}

void tn_blobs_seal(tn_blobs_head *h) { head_digest(h, h->head_sum); }

bool tn_blobs_sealed(const tn_blobs_head *h)
{
  uint8_t sum[32];
  head_digest(h, sum);
  return memcmp(sum, h->head_sum, sizeof sum) == 0;
}

/* Maps a regular file of this user's. */
static tn_status map_file(const char *path, tn_blobs *b, tn_err *err)
{
  struct stat sb;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return tn_fail(err, TN_E_IO, "%s: cannot be opened: %s", path, strerror(errno));
  tn_status st = TN_OK;
  if (fstat(fd, &sb) != 0)
    st = tn_fail(err, TN_E_IO, "%s: cannot be read: %s", path, strerror(errno));
  else if (!S_ISREG(sb.st_mode) || sb.st_uid != geteuid())
    st = tn_fail(err, TN_E_ARG, "%s: it is not a file of this user's own", path);
  else if (sb.st_size < TN_BLOBS_FIRST)
    st = tn_fail(err, TN_E_ARG, "%s: it has %lld bytes, a header alone takes %d", path, (long long)sb.st_size,
                 TN_BLOBS_FIRST);
  if (st == TN_OK) {
    void *p = mmap(NULL, (size_t)sb.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) {
      st = tn_fail(err, TN_E_IO, "%s: cannot be mapped: %s", path, strerror(errno));
    } else {
      b->base = p;
      b->bytes = (uint64_t)sb.st_size;
      (void)madvise(p, b->bytes, MADV_HUGEPAGE); /* a cold file is then read into large pages, where the kernel can */
      (void)futimens(fd, NULL);                  /* when it was last used; without the right to, it looks older */
    }
  }
  close(fd);
  return st;
}

static const char *index_fault(const tn_blobs *b, const tn_blobs_head *h)
{
  uint64_t room = b->bytes - h->index_at;
  uint8_t sum[32];
  if (h->index_at % TN_BLOBS_ALIGN || h->n != room / sizeof(tn_blob) || room % sizeof(tn_blob))
    return "the index's size";
  const tn_blob *index = (const tn_blob *)(const void *)(b->base + h->index_at);
  tn_sha256 sha;
  tn_sha256_init(&sha);
  tn_sha256_update(&sha, index, (size_t)room);
  tn_sha256_final(&sha, sum);
  if (memcmp(sum, h->index_sum, sizeof sum) != 0) return "the index's check sum";
  for (uint64_t i = 0; i < h->n; i++) {
    const tn_blob *e = &index[i];
    if (e->offset < TN_BLOBS_FIRST || e->offset % TN_BLOBS_ALIGN || e->offset > h->index_at ||
        e->bytes > h->index_at - e->offset)
      return "an entry of the index";
  }
  return NULL;
}

/* What is wrong with the mapped file, NULL: nothing. */
static const char *fault(tn_blobs *b, const uint8_t key[32])
{
  tn_blobs_head h;
  memcpy(&h, b->base, sizeof h);
  if (memcmp(h.magic, TN_BLOBS_MAGIC, sizeof h.magic) != 0) return "its first bytes";
  if (!tn_blobs_sealed(&h)) return "the header's check sum";
  if (memcmp(h.key, key, sizeof h.key) != 0) return "its key";
  if (h.file_bytes != b->bytes || h.index_at < TN_BLOBS_FIRST || h.index_at > b->bytes) return "its size";
  const char *what = index_fault(b, &h);
  b->n = h.n;
  b->index = (const tn_blob *)(const void *)(b->base + h.index_at);
  return what;
}

tn_status tn_blobs_open(const char *path, const uint8_t key[32], tn_blobs **out, tn_err *err)
{
  *out = NULL;
  tn_blobs *b = tn_zalloc(1, sizeof *b);
  if (!b) return tn_fail(err, TN_E_NOMEM, "%s: no memory", path);
  tn_status st = map_file(path, b, err);
  const char *what = st == TN_OK ? fault(b, key) : NULL;
  if (what) st = tn_fail(err, TN_E_ARG, "%s: it is damaged or another file: %s is wrong", path, what);
  if (st == TN_OK)
    *out = b;
  else
    tn_blobs_close(b);
  return st;
}

void tn_blobs_close(tn_blobs *b)
{
  if (!b) return;
  if (b->base) munmap((void *)(uintptr_t)b->base, (size_t)b->bytes);
  free(b);
}

uint64_t tn_blobs_n(const tn_blobs *b) { return b->n; }

const tn_blob *tn_blobs_at(const tn_blobs *b, uint64_t i) { return &b->index[i]; }

const tn_blob *tn_blobs_find(const tn_blobs *b, const uint8_t id[32])
{
  for (uint64_t i = 0; i < b->n; i++)
    if (memcmp(b->index[i].id, id, sizeof b->index[i].id) == 0) return &b->index[i];
  return NULL;
}

const void *tn_blobs_data(const tn_blobs *b, const tn_blob *of) { return b->base + of->offset; }

uint64_t tn_blobs_bytes(const tn_blobs *b) { return b->bytes; }
