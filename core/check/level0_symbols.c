/* level0_symbols: what a plugin file exports, imports and needs. */
#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <stdio.h>
#include <string.h>

#include "check/level0.h"

bool tn_check_image(tn_check *c, tn_image *img)
{
  tn_err err = tn_err_init();
  if (tn_image_open(img, c->path, &err) == TN_OK) return true;
  tn_check_say(c, TN_CHECK_SKIP, "%s", err.msg);
  return false;
}

static bool starts_with(const char *s, const char *head) { return strncmp(s, head, strlen(head)) == 0; }

static bool one_of(const char *s, const char *const *list)
{
  for (; *list; list++)
    if (strcmp(s, *list) == 0) return true;
  return false;
}

/* Symbols that a sanitizer or its runtime brings. */
static bool of_sanitizer(const char *name)
{
  static const char *const heads[] = {"__asan_", "__odr_asan",   "__ubsan_", "__tsan_",
                                      "__msan_", "__sanitizer_", "__lsan_"};
  for (size_t i = 0; i < TN_ARRAY_LEN(heads); i++)
    if (starts_with(name, heads[i])) return true;
  return false;
}

bool tn_check_sanitized(const tn_image *img)
{
  for (size_t i = 1; i < img->n_sym; i++)
    if (of_sanitizer(tn_image_name(img, i))) return true;
  return false;
}

void tn_check_exports(tn_check *c)
{
  tn_image img;
  bool entry = false;
  if (tn_check_image(c, &img)) {
    for (size_t i = 1; i < img.n_sym; i++) {
      const char *name = tn_image_name(&img, i);
      if (!tn_image_exported(&img, i) || of_sanitizer(name)) continue;
      if (strcmp(name, TN_ENTRY_SYMBOL) == 0)
        entry = true;
      else
        tn_check_say(c, TN_CHECK_FAIL, "exports '%s', which another library may replace: use the version script", name);
    }
    if (!entry) tn_check_say(c, TN_CHECK_FAIL, "does not export %s", TN_ENTRY_SYMBOL);
  }
  tn_image_close(&img);
}

/* Calls `judge` on each undefined symbol that is no sanitizer's. */
static void each_undefined(tn_check *c, void (*judge)(tn_check *, const char *name, const char *version, bool weak))
{
  tn_image img;
  if (tn_check_image(c, &img)) {
    for (size_t i = 1; i < img.n_sym; i++) {
      const char *name = tn_image_name(&img, i);
      bool weak = ELF64_ST_BIND(img.sym[i].st_info) == STB_WEAK;
      if (img.sym[i].st_shndx == SHN_UNDEF && *name && !of_sanitizer(name))
        judge(c, name, tn_image_version(&img, i), weak);
    }
  }
  tn_image_close(&img);
}

/* A sanitizer's runtime stands in for functions of the C library, without their versions. */
static bool sanitized(tn_check *c)
{
  tn_image img;
  bool yes = tn_check_image(c, &img) && tn_check_sanitized(&img);
  tn_image_close(&img);
  return yes;
}

static void judge_origin(tn_check *c, const char *name, const char *version, bool weak)
{
  if (*version == '\0' && !weak)
    tn_check_say(c, TN_CHECK_FAIL, "takes '%s' from no library that it names: a host's symbols are not for plugins",
                 name);
}

static void judge_origin_sanitized(tn_check *c, const char *name, const char *version, bool weak)
{
  if (!dlsym(RTLD_DEFAULT, name)) judge_origin(c, name, version, weak);
}

void tn_check_undefined(tn_check *c)
{
  bool soft = sanitized(c);
  if (c->verdict == TN_CHECK_PASS) each_undefined(c, soft ? judge_origin_sanitized : judge_origin);
}

/* Functions that no plugin may call, with what they do. */
static const struct {
  const char *does;
  const char *names[24];
} forbidden[] = {
    {"ends the process", {"exit", "_exit", "_Exit", "quick_exit", "abort", "__assert_fail", "raise", "kill"}},
    {"prints",
     {"printf", "vprintf", "puts", "putchar", "perror", "psignal", "stdout", "stderr", "__printf_chk", "__vprintf_chk",
      "syslog", "warn", "warnx", "err", "errx"}},
    {"starts threads or processes",
     {"pthread_create", "thrd_create", "clone", "fork", "vfork", "system", "popen", "posix_spawn", "posix_spawnp",
      "execv", "execve", "execvp", "execl", "execlp"}},
    {"changes the process",
     {"signal",   "sigaction",      "sigprocmask", "pthread_sigmask", "setlocale", "uselocale", "chdir", "fchdir",
      "umask",    "setenv",         "putenv",      "unsetenv",        "clearenv",  "setrlimit", "srand", "fesetround",
      "fesetenv", "feenableexcept", "atexit",      "on_exit",         "prctl",     "setitimer"}},
};

static void judge_import(tn_check *c, const char *name, const char *version, bool weak)
{
  (void)version;
  for (size_t i = 0; i < TN_ARRAY_LEN(forbidden); i++)
    if (!weak && one_of(name, forbidden[i].names))
      tn_check_say(c, TN_CHECK_FAIL, "calls '%s', which %s", name, forbidden[i].does);
}

/* Backends and transports bring device libraries whose own needs are not the plugin author's. */
static bool device_slot(const tn_check *c)
{
  tn_notes n;
  tn_check quiet = {.path = c->path};
  bool yes = tn_check_notes(&quiet, &n) && (n.at[0].slot == TN_SLOT_BACKEND || n.at[0].slot == TN_SLOT_PARALLEL);
  tn_text_release(&quiet.text);
  return yes;
}

void tn_check_imports(tn_check *c)
{
  each_undefined(c, judge_import);
  if (c->verdict == TN_CHECK_FAIL && device_slot(c)) c->verdict = TN_CHECK_WARN;
}

void tn_check_libraries(tn_check *c)
{
  static const char *const system_libraries[] = {"libc.so.6",
                                                 "libm.so.6",
                                                 "ld-linux-x86-64.so.2",
                                                 "ld-linux-aarch64.so.1",
                                                 "libgcc_s.so.1",
                                                 "libpthread.so.0",
                                                 "libdl.so.2",
                                                 "librt.so.1",
                                                 NULL};
  static const char *const openmp[] = {"libgomp.so", "libomp.so", "libiomp5.so", "libtbb.so"};
  static const char *const odd[] = {"libstdc++.so", "libasan.so", "libubsan.so", "libtsan.so", "liblsan.so"};
  tn_image img;
  uint64_t off;
  bool device = device_slot(c);
  bool open = tn_check_image(c, &img);
  for (size_t i = 0; open && tn_image_dyn(&img, DT_NEEDED, i, &off); i++) {
    const char *name = tn_image_str(&img, off);
    bool threads = false, warn = device;
    for (size_t k = 0; k < TN_ARRAY_LEN(openmp); k++) threads = threads || starts_with(name, openmp[k]);
    for (size_t k = 0; k < TN_ARRAY_LEN(odd); k++) warn = warn || starts_with(name, odd[k]);
    if (threads)
      tn_check_say(c, TN_CHECK_FAIL, "needs %s, which starts threads of its own beside the host's", name);
    else if (!one_of(name, system_libraries))
      tn_check_say(c, warn ? TN_CHECK_WARN : TN_CHECK_FAIL, "needs %s, which a machine may not have", name);
  }
  tn_image_close(&img);
}

void tn_check_unique(tn_check *c)
{
  tn_image img;
  if (tn_check_image(c, &img))
    for (size_t i = 1; i < img.n_sym; i++)
      if (ELF64_ST_BIND(img.sym[i].st_info) == STB_GNU_UNIQUE)
        tn_check_say(c, TN_CHECK_WARN, "'%s' is a unique symbol: one for all libraries of the process",
                     tn_image_name(&img, i));
  tn_image_close(&img);
}

void tn_check_glibc(tn_check *c)
{
  tn_image img;
  unsigned most[2] = {0, 0}, host[2] = {0, 0};
  if (tn_check_image(c, &img)) {
    for (size_t i = 1; i < img.n_sym; i++) {
      unsigned v[2];
      if (sscanf(tn_image_version(&img, i), "GLIBC_%u.%u", &v[0], &v[1]) != 2) continue;
      if (v[0] > most[0] || (v[0] == most[0] && v[1] > most[1])) most[0] = v[0], most[1] = v[1];
    }
    sscanf(gnu_get_libc_version(), "%u.%u", &host[0], &host[1]);
    bool newer = most[0] > host[0] || (most[0] == host[0] && most[1] > host[1]);
    if (newer || most[0] > 0)
      tn_check_say(c, newer ? TN_CHECK_FAIL : TN_CHECK_PASS, "needs glibc %u.%u, this machine has %u.%u", most[0],
                   most[1], host[0], host[1]);
  }
  tn_image_close(&img);
}
