/* open: from a checked file to a validated module. The first code of the plugin that runs is its constructors. */
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include "loader/loader_int.h"
#include "loader/validate.h"

/* The floating-point mode that a library built with -ffast-math would change for the whole thread. */
static uint32_t fp_mode(void)
{
#if defined(__SSE__)
  return _mm_getcsr() & ~0x3fu; /* without the sticky exception flags */
#else
  return 0;
#endif
}

static void set_fp_mode(uint32_t mode)
{
#if defined(__SSE__)
  _mm_setcsr(mode);
#else
  (void)mode;
#endif
}

/* What the entry call's host knows: whose call it is, and where its log goes. */
typedef struct entry_ctx {
  const char *path;
  tn_entry_log log;
  void *log_ctx;
} entry_ctx;

/* "path: before word after" */
static void say(const entry_ctx *c, int32_t level, const char *before, const char *word, const char *after)
{
  char msg[1024];
  if (!c->log) return;
  snprintf(msg, sizeof msg, "%s: %s%s%s", c->path, before, word, after);
  c->log(c->log_ctx, level, msg);
}

static void entry_log(tn_hctx *h, int32_t level, const char *msg)
{
  say((const entry_ctx *)(const void *)h, level, "", msg ? msg : "", "");
}

static void misbehaved(tn_hctx *h, const char *call)
{
  say((const entry_ctx *)(const void *)h, TN_LOG_ERROR, "called ", call, " in its entry, where only log may be used");
}

static void *entry_alloc(tn_hctx *h, uint64_t bytes, uint64_t align)
{
  (void)bytes;
  (void)align;
  misbehaved(h, "alloc");
  return NULL;
}

static void entry_free(tn_hctx *h, void *p)
{
  if (p) misbehaved(h, "free_");
}

static void entry_count(tn_hctx *h, uint32_t counter, uint64_t n)
{
  (void)counter;
  (void)n;
  misbehaved(h, "count");
}

static const void *entry_service(tn_hctx *h, const char *id)
{
  (void)id;
  misbehaved(h, "service");
  return NULL;
}

typedef const tn_module *(*entry_fn)(const tn_host *, tn_err *);

/* The entry symbol of this very file: dlsym also looks into the libraries that a file needs. */
static tn_status find_entry(const char *path, void *handle, entry_fn *entry, tn_err *err)
{
  void *sym = dlsym(handle, TN_ENTRY_SYMBOL);
  if (!sym) {
    const char *why = dlerror();
    return tn_fail(err, TN_E_UNSUPPORTED, "%s: does not export %s (%s)", path, TN_ENTRY_SYMBOL, why ? why : "null");
  }
  struct link_map *mine = NULL, *its = NULL;
  Dl_info info;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &mine) != 0 || !dladdr1(sym, &info, (void **)&its, RTLD_DL_LINKMAP))
    return tn_fail(err, TN_E_INTERNAL, "%s: cannot tell where %s comes from", path, TN_ENTRY_SYMBOL);
  if (mine != its)
    return tn_fail(err, TN_E_UNSUPPORTED, "%s: does not export %s; the one found is in %s", path, TN_ENTRY_SYMBOL,
                   info.dli_fname);
  memcpy(entry, &sym, sizeof *entry);
  return TN_OK;
}

/* Calls the entry with a host that offers the log alone. */
static tn_status call_entry(entry_ctx *ctx, entry_fn entry, const tn_module **module, tn_err *err)
{
  const char *path = ctx->path;
  const tn_host host = {
      .struct_size = sizeof host,
      .abi_major = TN_ABI_MAJOR,
      .abi_minor = TN_ABI_MINOR,
      .name = "tenon",
      .version = TN_VERSION,
      .ctx = (tn_hctx *)(void *)ctx,
      .log = entry_log,
      .alloc = entry_alloc,
      .free_ = entry_free,
      .count = entry_count,
      .service = entry_service,
  };
  tn_err why = tn_err_init();
  *module = entry(&host, &why);
  why.msg[sizeof why.msg - 1] = '\0';
  if (*module) return TN_OK;
  if (why.msg[0] == '\0')
    return tn_fail(err, TN_E_UNSUPPORTED, "%s: its entry %s returned NULL and gave no reason", path, TN_ENTRY_SYMBOL);
  return tn_fail(err, why.code < 0 ? why.code : TN_E_UNSUPPORTED, "%s: its entry %s refused: %s", path, TN_ENTRY_SYMBOL,
                 why.msg);
}

tn_status tn_file_enter(const char *path, tn_entry_log log, void *log_ctx, const tn_module **module, tn_err *err)
{
  void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!handle) {
    const char *why = dlerror();
    return tn_fail(err, TN_E_IO, "%s: dlopen: %s", path, why ? why : "no reason given");
  }
  entry_fn entry = NULL;
  entry_ctx ctx = {path, log, log_ctx};
  tn_status st = find_entry(path, handle, &entry, err);
  return st == TN_OK ? call_entry(&ctx, entry, module, err) : st;
}

tn_status tn_file_load(const tn_loader *l, const char *path, const tn_notes *notes, const tn_module **module,
                       tn_err *err)
{
  uint32_t mode = fp_mode();
  tn_status st = tn_file_enter(path, l->log, l->ctx, module, err);
  uint32_t after = fp_mode();
  if (after != mode) {
    set_fp_mode(mode);
    return tn_fail(err, TN_E_UNSUPPORTED,
                   "%s: loading it changed the floating-point mode from %#x to %#x (linked with -ffast-math?)", path,
                   mode, after);
  }
  if (st != TN_OK) return st;
  st = tn_validate_module(*module, err);
  for (uint32_t i = 0; st == TN_OK && i < (*module)->n_desc; i++) st = tn_validate_desc((*module)->desc[i], err);
  if (st == TN_OK) st = tn_validate_notes(*module, notes, err);
  if (st != TN_OK) tn_err_prefix(err, "%s", path);
  return st;
}
