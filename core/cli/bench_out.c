/* bench_out: see bench_out.h. */
#include "cli/bench_out.h"

#include <stdarg.h>
#include <string.h>
#include <time.h>

#include "measure/rss.h"

/* ---------------------------------------------------------------- programs' formats */

static void csv_text(const char *s)
{
  putchar('"');
  for (; *s; s++) {
    if (*s == '"') putchar('"');
    putchar(*s);
  }
  putchar('"');
}

static void csv_value(const json_t *v)
{
  char number[64] = "";
  if (json_is_string(v)) {
    csv_text(json_string_value(v));
    return;
  }
  if (json_is_integer(v)) snprintf(number, sizeof number, "%lld", (long long)json_integer_value(v));
  if (json_is_real(v)) snprintf(number, sizeof number, "%.6f", json_real_value(v));
  if (json_is_boolean(v)) snprintf(number, sizeof number, "%d", json_is_true(v));
  csv_text(number);
}

/* Arrays and objects have no place in a CSV line. */
static void csv_line(json_t *j, bool head)
{
  const char *key, *between = "";
  json_t *v;
  json_object_foreach(j, key, v)
  {
    if (json_is_array(v) || json_is_object(v)) continue;
    fputs(between, stdout);
    if (head)
      fputs(key, stdout);
    else
      csv_value(v);
    between = ",";
  }
  putchar('\n');
}

/* Takes over j. */
static int put_record(tn_bench_out *o, json_t *j)
{
  if (!j) {
    fputs("tenon bench: no memory for a result\n", stderr);
    return TN_EXIT_FAIL;
  }
  if (o->format == TN_BENCH_CSV) {
    if (o->n == 0) csv_line(j, true);
    csv_line(j, false);
  } else {
    bool lines = o->format == TN_BENCH_JSONL;
    if (!lines) fputs(o->n == 0 ? "[\n" : ",\n", stdout);
    json_dumpf(j, stdout, (lines ? JSON_COMPACT : JSON_INDENT(2)) | JSON_REAL_PRECISION(12));
    if (lines) putchar('\n');
  }
  json_decref(j);
  o->n++;
  return tn_cli_done("bench", TN_EXIT_OK);
}

/* number / bound, null where there is no bound. */
static json_t *share(double number, double bound)
{
  return bound > 0 && number > 0 ? json_real(number / bound) : json_null();
}

/* Adds what was read and computed in so many seconds. */
static void set_cost(json_t *j, const tn_bounds *b, const tn_cost *c, double seconds)
{
  json_object_set_new(j, "bytes", json_integer((json_int_t)c->bytes));
  json_object_set_new(j, "int_ops", json_integer((json_int_t)c->int_ops));
  json_object_set_new(j, "byte_ops", json_integer((json_int_t)c->byte_ops));
  json_object_set_new(j, "read_rate", json_integer((json_int_t)b->read));
  json_object_set_new(j, "int_rate", b->int_ops > 0 ? json_integer((json_int_t)b->int_ops) : json_null());
  json_object_set_new(j, "byte_rate", b->byte_ops > 0 ? json_integer((json_int_t)b->byte_ops) : json_null());
  json_object_set_new(j, "share_read", share(c->bytes / seconds, b->read));
  json_object_set_new(j, "share_int", share(tn_cost_compute(c, b), seconds));
  json_object_set_new(j, "share_bound", share(tn_cost_bound(c, b), seconds));
}

/* What it takes in memory, and which of several compositions it is. */
static void set_memory(json_t *j, const tn_bench_out *o, const tn_setup *s, const tn_bench_result *r)
{
  json_object_set_new(j, "weights_bytes", json_integer((json_int_t)tn_engine_stat(s->engine).weights_bytes));
  json_object_set_new(j, "kv_bytes_peak", json_integer((json_int_t)r->kv_peak));
  json_object_set_new(j, "rss_bytes_peak", json_integer((json_int_t)tn_rss_peak()));
  if (o->variant) json_object_set_new(j, "variant", json_string(o->variant));
}

static json_t *test_record(const tn_bench_out *o, const tn_setup *s, const tn_bounds *b, const tn_bench_test *t,
                           const tn_bench_result *r)
{
  char now[32];
  time_t at = time(NULL);
  struct tm utc;
  json_t *j = tn_bench_facts(s), *ns = json_array(), *ts = json_array();
  if (!gmtime_r(&at, &utc) || strftime(now, sizeof now, "%Y-%m-%dT%H:%M:%SZ", &utc) == 0) now[0] = '\0';
  json_t *figures = json_pack("{s:I, s:I, s:I, s:s, s:I, s:I, s:f, s:f, s:i, s:I}", "n_prompt", (json_int_t)t->n_prompt,
                              "n_gen", (json_int_t)t->n_gen, "n_depth", (json_int_t)t->n_depth, "test_time", now,
                              "avg_ns", (json_int_t)r->avg_ns, "stddev_ns", (json_int_t)r->sd_ns, "avg_ts", r->avg_ts,
                              "stddev_ts", r->sd_ts, "n_seqs", (int)t->n_seqs, "steps", (json_int_t)r->steps);
  for (uint32_t i = 0; i < r->n; i++) {
    json_array_append_new(ns, json_integer((json_int_t)r->ns[i]));
    json_array_append_new(ts, json_real((double)(t->n_prompt + t->n_gen) * t->n_seqs * 1e9 / (double)r->ns[i]));
  }
  if (j && figures) {
    json_object_update(j, figures);
    set_cost(j, b, &r->cost, r->avg_ns / 1e9);
    set_memory(j, o, s, r);
    json_object_set(j, "samples_ns", ns);
    json_object_set(j, "samples_ts", ts);
  } else {
    json_decref(j);
    j = NULL;
  }
  json_decref(figures);
  json_decref(ns);
  json_decref(ts);
  return j;
}

static json_t *op_record(const tn_setup *s, const tn_bounds *b, const tn_bench_op *op)
{
  json_t *j = tn_bench_facts(s);
  if (!j) return NULL;
  json_object_set_new(j, "op", json_string(op->name));
  json_object_set_new(j, "n_records", json_integer(op->n_records));
  json_object_set_new(j, "n_rows", json_integer(op->rows));
  json_object_set_new(j, "n_depth", json_integer((json_int_t)op->depth));
  json_object_set_new(j, "median_ns", json_integer((json_int_t)(op->seconds * 1e9)));
  set_cost(j, b, &op->cost, op->seconds);
  return j;
}

/* ---------------------------------------------------------------- the table */

typedef struct column {
  const char *title;
  int width; /* < 0: to the left */
  char text[96];
} column;

/* One cell of `width` characters; a UTF-8 character counts once. */
static void cell(const char *text, int width)
{
  int shown = 0, wide = width < 0 ? -width : width;
  for (const char *p = text; *p; p++) shown += ((unsigned char)*p & 0xC0) != 0x80;
  int pad = shown < wide ? wide - shown : 0;
  if (width < 0)
    printf(" %s%*s |", text, pad, "");
  else
    printf(" %*s%s |", pad, "", text);
}

static void table_head(const column *c, int n)
{
  putchar('|');
  for (int i = 0; i < n; i++) cell(c[i].title, c[i].width);
  fputs("\n|", stdout);
  for (int i = 0; i < n; i++) {
    int wide = c[i].width < 0 ? -c[i].width : c[i].width;
    printf(" %.*s%c |", wide - 1, "----------------------------------------", c[i].width > 0 ? ':' : '-');
  }
  putchar('\n');
}

static int put_line(tn_bench_out *o, const column *c, int n)
{
  if (o->n++ == 0) table_head(c, n);
  putchar('|');
  for (int i = 0; i < n; i++) cell(c[i].text, c[i].width);
  putchar('\n');
  return tn_cli_done("bench", TN_EXIT_OK);
}

static void add(column *c, int *n, const char *title, int width, const char *fmt, ...) TN_PRINTF(5, 6);
static void add(column *c, int *n, const char *title, int width, const char *fmt, ...)
{
  va_list ap;
  va_start(ap, fmt);
  c[*n] = (column){title, width, ""};
  vsnprintf(c[*n].text, sizeof c->text, fmt, ap);
  va_end(ap);
  ++*n;
}

static void add_percent(column *c, int *n, const char *title, double number, double bound)
{
  if (bound > 0 && number > 0)
    add(c, n, title, 7, "%.1f", 100 * number / bound);
  else
    add(c, n, title, 7, "-");
}

static const char *word(const json_t *facts, const char *key) { return json_string_value(json_object_get(facts, key)); }

static int test_line(tn_bench_out *o, const json_t *f, const tn_bounds *b, const tn_bench_test *t,
                     const tn_bench_result *r)
{
  column c[20];
  int n = 0;
  char name[64];
  double size = (double)json_integer_value(json_object_get(f, "model_size"));
  double params = (double)json_integer_value(json_object_get(f, "model_n_params"));
  int gpu = (int)json_integer_value(json_object_get(f, "n_gpu_layers"));
  bool mib = size < 1073741824, mega = params < 1e9;
  tn_bench_test_name(t, name);
  add(c, &n, "model", -30, "%s", word(f, "model_type"));
  add(c, &n, "size", 10, "%.2f %s", size / (mib ? 1048576 : 1073741824), mib ? "MiB" : "GiB");
  add(c, &n, "params", 10, "%.2f %s", params / (mega ? 1e6 : 1e9), mega ? "M" : "B");
  add(c, &n, "backend", -10, "%s", word(f, "backends"));
  if (gpu) add(c, &n, "ngl", 3, "%d", gpu);
  add(c, &n, "threads", 7, "%d", (int)json_integer_value(json_object_get(f, "n_threads")));
  if (!o->variant && strcmp(word(f, "weights"), "as in the file") != 0)
    add(c, &n, "weights", -10, "%s", word(f, "weights"));
  if (!o->variant && strcmp(word(f, "type_k"), "f16") != 0) add(c, &n, "type_k", -8, "%s", word(f, "type_k"));
  if (o->seqs) add(c, &n, "seqs", 4, "%u", t->n_seqs);
  add(c, &n, "test", 15, "%s", name);
  add(c, &n, "t/s", 20, "%.2f ± %.2f", r->avg_ts, r->sd_ts);
  add_percent(c, &n, "read %", r->cost.bytes / r->avg_ns * 1e9, b->read);
  add_percent(c, &n, "int %", tn_cost_compute(&r->cost, b), r->avg_ns * 1e-9);
  if (!o->variant) return put_line(o, c, n);
  add(c, &n, "KV MiB", 9, "%.2f", (double)r->kv_peak / 1048576);
  add(c, &n, "RSS MiB", 9, "%.1f", (double)tn_rss_peak() / 1048576);
  add(c, &n, "composition", 16, "%s", word(f, "fingerprint"));
  add(c, &n, "variant", -24, "%s", o->variant);
  return put_line(o, c, n);
}

static int op_line(tn_bench_out *o, const tn_bounds *b, const tn_bench_op *op)
{
  column c[12];
  int n = 0;
  add(c, &n, "op", -24, "%s", op->name);
  add(c, &n, "calls", 5, "%u", op->n_records);
  add(c, &n, "depth", 6, "%lld", (long long)op->depth);
  add(c, &n, "rows", 4, "%u", op->rows);
  add(c, &n, "us", 11, "%.1f", op->seconds * 1e6);
  add(c, &n, "GB/s", 7, "%.2f", op->cost.bytes / op->seconds * 1e-9);
  add_percent(c, &n, "read %", op->cost.bytes / op->seconds, b->read);
  add(c, &n, "Tops", 7, "%.4f", (op->cost.int_ops + op->cost.byte_ops) / op->seconds * 1e-12);
  add_percent(c, &n, "int %", tn_cost_compute(&op->cost, b), op->seconds);
  add_percent(c, &n, "bound %", tn_cost_bound(&op->cost, b), op->seconds);
  return put_line(o, c, n);
}

/* ---------------------------------------------------------------- both */

void tn_bench_out_bounds(tn_bench_out *o, const tn_setup *s, const tn_bounds *b)
{
  size_t n = strlen(o->notes);
  char print[TN_FINGERPRINT_HEX + 1], peak[64] = "no measured peak of the backend";
  tn_composition_short(s->composition, print);
  if (b->int_ops > 0)
    snprintf(peak, sizeof peak, "int peak %.3f Tops, of 8-bit codes %.3f", b->int_ops * 1e-12, b->byte_ops * 1e-12);
  snprintf(o->notes + n, sizeof o->notes - n, "%s: read %.2f GB/s, %s; composition %s\n",
           tn_engine_stat(s->engine).device, b->read * 1e-9, peak, print);
}

int tn_bench_out_test(tn_bench_out *o, const tn_setup *s, const tn_bounds *b, const tn_bench_test *t,
                      const tn_bench_result *r)
{
  if (o->format != TN_BENCH_MD) return put_record(o, test_record(o, s, b, t, r));
  json_t *facts = tn_bench_facts(s);
  if (!facts) return put_record(o, NULL);
  int code = test_line(o, facts, b, t, r);
  json_decref(facts);
  return code;
}

int tn_bench_out_op(tn_bench_out *o, const tn_setup *s, const tn_bounds *b, const tn_bench_op *op)
{
  return o->format == TN_BENCH_MD ? op_line(o, b, op) : put_record(o, op_record(s, b, op));
}

int tn_bench_out_end(tn_bench_out *o, int code)
{
  if (o->format == TN_BENCH_JSON) fputs(o->n == 0 ? "[]\n" : "\n]\n", stdout);
  if (o->format == TN_BENCH_MD && o->n > 0) printf("\n%sbuild: %s\n", o->notes, TN_VERSION);
  return tn_cli_done("bench", code);
}
