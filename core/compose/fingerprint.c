/* fingerprint: SHA-256 over what decides a composition's output, as sorted lines of text:
 *
 *   engine.<option>=<value>                          options of the host that can change tokens
 *   model <64 hex digits>                            the identity of the model file, when there is one
 *   part <key> <layers> <id> <version>
 *   part <key> <layers> <id> <version> <option>=<value>   options of the plugin that can change tokens
 *
 * A path that can change tokens stands for its file: size and digest of its first, middle and last 64 KiB. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compose/compose_int.h"
#include "sha256.h"

enum { SAMPLE = 65536 };

/* Adds up to SAMPLE bytes from offset on to a digest; what cannot be read is left out. */
static void sample(tn_sha256 *sha, int fd, int64_t offset)
{
  char buf[4096];
  for (int64_t done = 0; done < SAMPLE;) {
    ssize_t n = pread(fd, buf, sizeof buf, offset + done);
    if (n <= 0) break;
    tn_sha256_update(sha, buf, (size_t)n);
    done += n;
  }
}

/* Text that stands for the contents of a file; the path itself when there is no such file. NULL: no memory. */
static char *file_words(const char *path)
{
  int fd = *path ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
  struct stat s;
  if (fd < 0 || fstat(fd, &s) != 0 || !S_ISREG(s.st_mode)) {
    if (fd >= 0) close(fd);
    return tn_asprintf("path %s", path);
  }
  tn_sha256 sha;
  uint8_t digest[32];
  char hex[65];
  tn_sha256_init(&sha);
  sample(&sha, fd, 0);
  sample(&sha, fd, s.st_size / 2);
  sample(&sha, fd, s.st_size > SAMPLE ? s.st_size - SAMPLE : 0);
  close(fd);
  tn_sha256_final(&sha, digest);
  tn_sha256_hex(digest, hex);
  return tn_asprintf("file %lld %s", (long long)s.st_size, hex);
}

/* The line of one fact; "" when it decides nothing. NULL: no memory. */
static char *line_of(const tn_composition *c, const tn_fact *f)
{
  if (!f->output) return tn_strdup("");
  bool path = f->param && f->param->type == TN_T_PATH;
  char *value = path ? file_words(f->value) : tn_strdup(f->value), *line = NULL;
  if (value && f->part == TN_FACT_HOST) line = tn_asprintf("%s=%s", f->name, value);
  if (value && f->part != TN_FACT_HOST) {
    const tn_choice *p = &c->stack.part[f->part];
    char range[32];
    tn_range_words(p, range);
    const char *option = f->is_part ? "" : f->param->key;
    line = tn_asprintf("part %s %s %s %s%s%s%s%s", p->key, range, p->desc->id, p->desc->version, f->is_part ? "" : " ",
                       option, f->is_part ? "" : "=", f->is_part ? "" : value);
  }
  free(value);
  return line;
}

static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static void digest_lines(char **lines, size_t n, uint8_t out[32])
{
  tn_sha256 sha;
  tn_sha256_init(&sha);
  qsort(lines, n, sizeof *lines, by_text);
  for (size_t i = 0; i < n; i++) {
    if (!*lines[i]) continue;
    tn_sha256_update(&sha, lines[i], strlen(lines[i]));
    tn_sha256_update(&sha, "\n", 1);
  }
  tn_sha256_final(&sha, out);
}

tn_status tn_fingerprint(const tn_composition *c, uint8_t out[32], tn_err *err)
{
  tn_facts facts;
  tn_status st = tn_facts_of(c, &facts);
  if (st) return tn_fail(err, st, "no memory for the fingerprint");
  size_t n = 0;
  char hex[65], **lines = tn_zalloc(facts.n + 1, sizeof *lines);
  bool ok = lines != NULL;
  for (size_t i = 0; ok && i < facts.n; i++) ok = (lines[n++] = line_of(c, &facts.at[i])) != NULL;
  if (ok && c->stack.model) {
    tn_sha256_hex(c->model.identity, hex);
    ok = (lines[n++] = tn_asprintf("model %s", hex)) != NULL;
  }
  if (ok) digest_lines(lines, n, out);
  for (size_t i = 0; lines && i < n; i++) free(lines[i]);
  free(lines);
  tn_facts_free(&facts);
  return ok ? TN_OK : tn_fail(err, TN_E_NOMEM, "no memory for the fingerprint");
}
