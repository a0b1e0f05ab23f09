/* cache_dir: see cache_dir.h. */
#include "cache_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "sha256.h"

#define HEAD "weights-"
#define TAIL ".tnw"
enum { DIGITS = 32, NAME = sizeof HEAD - 1 + DIGITS + sizeof TAIL - 1, TMP = NAME + 7 }; /* TMP: ".XXXXXX" behind it */
enum { STALE_S = 3600 }; /* nobody writes one file for so long */

char *tn_cache_dir(void)
{
  const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  if (xdg && xdg[0] == '/') return tn_asprintf("%s/tenon", xdg);
  return home && home[0] == '/' ? tn_asprintf("%s/.cache/tenon", home) : NULL;
}

tn_status tn_cache_dir_make(const char *dir, tn_err *err)
{
  char *path = tn_strdup(dir);
  if (!path) return tn_fail(err, TN_E_NOMEM, "%s: no memory", dir);
  tn_status st = TN_OK;
  for (char *p = path + 1; st == TN_OK; p++) {
    char c = *p;
    if (c != '/' && c != '\0') continue;
    *p = '\0';
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
      st = tn_fail(err, TN_E_IO, "%s: cannot be made: %s", path, strerror(errno));
    *p = c;
    if (c == '\0') break;
  }
  free(path);
  return st;
}

char *tn_cache_path(const char *dir, const uint8_t key[32])
{
  char hex[65];
  tn_sha256_hex(key, hex);
  return tn_asprintf("%s/" HEAD "%.*s" TAIL, dir, DIGITS, hex);
}

/* ---------------------------------------------------------------- keeping to a size */

typedef struct cached {
  char name[TMP + 1];
  struct timespec used;
  uint64_t bytes;
  bool half; /* not complete */
} cached;

typedef struct listing {
  cached *at; /* [n] */
  size_t n, cap;
} listing;

static bool ours(const char *name, bool *half)
{
  size_t n = strlen(name);
  *half = n == TMP;
  return (n == NAME || n == TMP) && strncmp(name, HEAD, sizeof HEAD - 1) == 0 &&
         strspn(name + sizeof HEAD - 1, "0123456789abcdef") == DIGITS &&
         strncmp(name + NAME - (sizeof TAIL - 1), TAIL, sizeof TAIL - 1) == 0;
}

/* False: no memory. */
static bool add(listing *l, const char *name, const struct stat *sb, bool half)
{
  if (l->n == l->cap) {
    size_t cap = l->cap ? 2 * l->cap : 16;
    cached *grown = realloc(l->at, cap * sizeof *grown);
    if (!grown) return false;
    l->at = grown;
    l->cap = cap;
  }
  cached *c = &l->at[l->n++];
  *c = (cached){.used = sb->st_mtim, .bytes = (uint64_t)sb->st_size, .half = half};
  memcpy(c->name, name, strlen(name) + 1);
  return true;
}

static int by_use(const void *a, const void *b)
{
  const struct timespec *x = &((const cached *)a)->used, *y = &((const cached *)b)->used;
  if (x->tv_sec != y->tv_sec) return x->tv_sec < y->tv_sec ? -1 : 1;
  return x->tv_nsec < y->tv_nsec ? -1 : x->tv_nsec > y->tv_nsec;
}

static void list(DIR *d, listing *l)
{
  struct stat sb;
  bool half;
  for (struct dirent *e; (e = readdir(d));) {
    if (!ours(e->d_name, &half) || fstatat(dirfd(d), e->d_name, &sb, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (!S_ISREG(sb.st_mode) || !add(l, e->d_name, &sb, half)) continue;
  }
  if (l->n) qsort(l->at, l->n, sizeof *l->at, by_use);
}

uint64_t tn_cache_trim(const char *dir, uint64_t limit_bytes, const char *keep)
{
  DIR *d = opendir(dir);
  if (!d) return 0;
  listing l = {0};
  uint64_t all = 0, gone = 0;
  const char *slash = keep ? strrchr(keep, '/') : NULL, *kept = slash ? slash + 1 : "";
  time_t now = time(NULL);
  list(d, &l);
  for (size_t i = 0; i < l.n; i++) all += l.at[i].bytes;
  for (size_t i = 0; i < l.n; i++) {
    const cached *c = &l.at[i];
    bool stale = c->half && now - c->used.tv_sec > STALE_S;
    bool over = !c->half && limit_bytes && all > limit_bytes && strcmp(c->name, kept) != 0;
    if ((!stale && !over) || unlinkat(dirfd(d), c->name, 0) != 0) continue;
    all -= c->bytes;
    gone += c->bytes;
  }
  free(l.at);
  closedir(d);
  return gone;
}
