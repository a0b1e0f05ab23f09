/* tenon plugins check: a plugin file against the contract. */
#include <stdlib.h>
#include <string.h>

#include "check/check.h"
#include "cli/compose_open.h"
#include "cli/plugins.h"
#include "loader/loader_int.h"

enum { OPT_LEVEL = 0, OPT_ONLY, OPT_TIMEOUT, OPT_IN_PROCESS, OPT_VERBOSE, OPT_QUIET, OPT_DESCRIBE, OPT_LIST, OPT_JSON };

static const tn_cli_option options[] = {
    [OPT_LEVEL] = {"level", 0, "N", "highest level: 0 the file, 1 loading, 2 the descriptor (default 2)"},
    [OPT_ONLY] = {"only", 0, "ID", "one test, such as TN-L0-06"},
    [OPT_TIMEOUT] = {"timeout", 0, "MS", "milliseconds that one test may take; default 10000"},
    [OPT_IN_PROCESS] = {"in-process", 0, NULL, "run the tests in this process, for a debugger"},
    [OPT_VERBOSE] = {"verbose", 'v', NULL, "every test, those that pass too"},
    [OPT_QUIET] = {"quiet", 'q', NULL, "no summary: only what did not pass"},
    [OPT_DESCRIBE] = {"describe", 0, NULL, "show the plugin instead, as `tenon plugins info` does"},
    [OPT_LIST] = {"list", 0, NULL, "list the tests instead"},
    [OPT_JSON] = {"json", 0, NULL, "print JSON"},
};
static const tn_cli_usage usage = {
    .command = "plugins check",
    .operands = "FILE.so",
    .summary = "Tests a plugin file against the contract, each test in a process of its own. Prints a line a level\n"
               "and what did not pass. Exits with 0 when no test failed; warnings and skipped tests do not count.",
    .options = options,
    .n_options = TN_ARRAY_LEN(options),
};

typedef struct request {
  tn_cli_args cli;
  tn_check_cfg cfg;
  bool verbose, quiet, describe, list, json;
} request;

static bool parse(int argc, char **argv, request *r, int *code)
{
  tn_cli_args *args = &r->cli;
  const char *value;
  int o;
  int64_t n;
  tn_cli_begin(args, &usage, argc, argv);
  *code = TN_EXIT_USAGE;
  while ((o = tn_cli_next(args, &value)) >= 0) {
    if (o == OPT_LEVEL) {
      if (!tn_cli_number(args, "level", value, 0, TN_CHECK_MAX_LEVEL, &n)) return false;
      r->cfg.level = (uint32_t)n;
    }
    if (o == OPT_TIMEOUT) {
      if (!tn_cli_number(args, "timeout", value, 1, 3600000, &n)) return false;
      r->cfg.timeout_ms = (uint32_t)n;
    }
    if (o == OPT_ONLY) r->cfg.only = value;
    if (o == OPT_IN_PROCESS) r->cfg.in_process = 1;
    r->verbose = r->verbose || o == OPT_VERBOSE;
    r->quiet = r->quiet || o == OPT_QUIET;
    r->describe = r->describe || o == OPT_DESCRIBE;
    r->list = r->list || o == OPT_LIST;
    r->json = r->json || o == OPT_JSON;
  }
  *code = args->exit_code;
  if (o == TN_CLI_STOP) return false;
  if (r->list) return true;
  r->cfg.path = argv[args->first_operand];
  if (argc - args->first_operand == 1) return true;
  *code = tn_cli_mistake(args, "takes one FILE.so");
  return false;
}

/* What a report goes to. */
typedef struct output {
  bool verbose, quiet, colour;
  json_t *tests; /* array, or NULL: text */
  uint32_t level;
  uint32_t counts[6]; /* of the level so far */
} output;

static json_t *test_json(const tn_check_test *t)
{
  return json_pack("{ss si ss}", "id", t->id, "level", (int)t->level, "what", t->what);
}

static void print_result(const output *o, const tn_check_result *r)
{
  static const char *const colours[] = {"32", "90", "33", "31", "31", "31"};
  const char *verdict = tn_check_verdict_name(r->verdict);
  if (!o->verbose && r->verdict == TN_CHECK_PASS) return;
  if (o->colour)
    printf("%s  \033[%sm%-7s\033[0m  %s\n", r->test->id, colours[r->verdict], verdict, r->test->what);
  else
    printf("%s  %-7s  %s\n", r->test->id, verdict, r->test->what);
  for (const char *line = r->text; *line; line += *line == '\n') {
    size_t n = strcspn(line, "\n");
    printf("          %7s  %.*s\n", "", (int)n, line);
    line += n;
  }
}

/* "level 0, the file        17 passed, 1 warned" once the level's last test has been reported. */
static void end_level(output *o)
{
  static const char *const levels[] = {"the file", "loading", "the descriptor"};
  static const char *const verdicts[] = {"passed", "skipped", "warned", "failed", "crashed", "ran out of time"};
  static const uint8_t order[] = {TN_CHECK_PASS,  TN_CHECK_WARN,    TN_CHECK_FAIL,
                                  TN_CHECK_CRASH, TN_CHECK_TIMEOUT, TN_CHECK_SKIP};
  uint32_t n = 0;
  for (size_t i = 0; i < TN_ARRAY_LEN(order); i++) {
    if (o->counts[order[i]] == 0) continue;
    if (n++ == 0)
      printf("level %u, %-16s ", o->level, o->level < TN_ARRAY_LEN(levels) ? levels[o->level] : "");
    else
      printf(", ");
    printf("%u %s", o->counts[order[i]], verdicts[order[i]]);
  }
  if (n > 0) putchar('\n');
  memset(o->counts, 0, sizeof o->counts);
}

static void report(void *ctx, const tn_check_result *r)
{
  output *o = ctx;
  if (!o->tests) {
    if (r->test->level != o->level && !o->quiet) end_level(o);
    o->level = r->test->level;
    o->counts[r->verdict]++;
    print_result(o, r);
    return;
  }
  json_t *j = test_json(r->test);
  if (!j) return;
  json_object_set_new(j, "verdict", json_string(tn_check_verdict_name(r->verdict)));
  json_object_set_new(j, "text", json_string(r->text));
  json_object_set_new(j, "ms", json_real((double)r->ns / 1e6));
  if (r->signal) json_object_set_new(j, "signal", json_integer(r->signal));
  json_array_append_new(o->tests, j);
}

static int list_tests(bool json)
{
  json_t *out = json ? json_array() : NULL;
  for (size_t i = 0; tn_check_test_at(i); i++) {
    const tn_check_test *t = tn_check_test_at(i);
    if (out)
      json_array_append_new(out, test_json(t));
    else
      printf("%s  %s\n", t->id, t->what);
  }
  return json ? tn_cli_json(usage.command, out) : tn_cli_done(usage.command, TN_EXIT_OK);
}

/* The plugin of a file, whatever its name: the first descriptor of the slot that its note is for. */
static tn_status open_file(tn_loader *l, const char *file, const tn_plugin **out, tn_err *err)
{
  char *path = realpath(file, NULL);
  if (!path) return tn_fail(err, TN_E_IO, "%s: there is no such file", file);
  tn_inspected in;
  tn_status st = tn_file_inspect(path, tn_isa_of_host(), &in, err);
  const char *slash = strrchr(path, '/');
  char name[256];
  snprintf(name, sizeof name, "%.*s", (int)strcspn(slash + 1, "."), slash + 1);
  if (st == TN_OK) st = tn_loader_open(l, in.notes.at[0].slot, name, path, out, err);
  free(path);
  return st;
}

static int describe(const request *r)
{
  tn_err err = tn_err_init();
  tn_loader *loader = NULL;
  const tn_plugin *p = NULL;
  int code = TN_EXIT_OK;
  tn_status st = tn_cli_loader(&loader, &err);
  if (st == TN_OK) st = open_file(loader, r->cfg.path, &p, &err);
  if (st != TN_OK)
    code = tn_cli_fail(&r->cli, &err);
  else if (r->json)
    code = tn_cli_json(usage.command, tn_cli_describe_json(p));
  else
    tn_cli_describe(p);
  tn_loader_free(loader);
  return tn_cli_done(usage.command, code);
}

int tn_cli_plugins_check(int argc, char **argv)
{
  request r = {.cfg = {.level = TN_CHECK_MAX_LEVEL}};
  int code;
  if (!parse(argc, argv, &r, &code)) return code;
  if (r.list) return list_tests(r.json);
  if (r.describe) return describe(&r);
  output o = {
      .verbose = r.verbose, .quiet = r.quiet, .colour = tn_cli_colour(stdout), .tests = r.json ? json_array() : NULL};
  uint32_t n[6];
  bool ok;
  tn_err err = tn_err_init();
  if (tn_check_run(&r.cfg, report, &o, n, &ok, &err) != TN_OK) {
    json_decref(o.tests);
    return tn_cli_fail(&r.cli, &err);
  }
  code = ok ? TN_EXIT_OK : TN_EXIT_FAIL;
  if (r.json) {
    json_t *j = json_pack("{ss sb s{si si si si si si} so}", "file", r.cfg.path, "ok", (int)ok, "counts", "pass",
                          (int)n[0], "skip", (int)n[1], "warn", (int)n[2], "fail", (int)n[3], "crash", (int)n[4],
                          "timeout", (int)n[5], "tests", o.tests);
    int written = tn_cli_json(usage.command, j);
    return written == TN_EXIT_OK ? code : written;
  }
  if (!r.quiet) end_level(&o);
  printf("%s: %u passed, %u warned, %u failed, %u crashed, %u ran out of time, %u skipped\n", r.cfg.path, n[0], n[2],
         n[3], n[4], n[5], n[1]);
  return tn_cli_done(usage.command, code);
}
