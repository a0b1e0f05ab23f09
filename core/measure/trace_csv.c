/* trace_csv: rows "time,prompt tokens,generated tokens". See trace.h. */
#include <string.h>
#include <strings.h>

#include "measure/trace.h"

static const char header[] = "TIMESTAMP,ContextTokens,GeneratedTokens";

bool tn_trace_csv_header(const char *p, size_t n) { return n == sizeof header - 1 && strncasecmp(p, header, n) == 0; }

/* Takes a number of at most `digits` digits, at least one, from the front of *s. */
static bool take_number(tn_str *s, int digits, int64_t *out)
{
  int n = 0;
  for (*out = 0; n < digits && s->n > 0 && *s->p >= '0' && *s->p <= '9'; n++, s->p++, s->n--)
    *out = *out * 10 + (*s->p - '0');
  return n > 0;
}

static bool take_char(tn_str *s, char c)
{
  if (s->n == 0 || *s->p != c) return false;
  s->p++, s->n--;
  return true;
}

/* ".6805900" and the like as nanoseconds; further digits are cut. Nothing is 0. */
static bool take_fraction(tn_str *s, int64_t *ns)
{
  *ns = 0;
  if (!take_char(s, '.')) return true;
  int64_t unit = 100000000, digit;
  bool any = false;
  for (; take_number(s, 1, &digit); any = true, unit /= 10) *ns += digit * unit;
  return any;
}

/* Days from 1970-01-01 in the Gregorian calendar. */
static int64_t days_of(int64_t year, int64_t month, int64_t day)
{
  int64_t y = month > 2 ? year : year - 1, m = month > 2 ? month - 3 : month + 9; /* years begin in March */
  return 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1 - 719468;
}

/* "", "Z", "+05:30": seconds to take off. */
static bool take_zone(tn_str *s, int64_t *offset)
{
  int64_t hour, minute = 0, sign = s->n > 0 && *s->p == '-' ? -1 : 1;
  *offset = 0;
  if (s->n == 0 || take_char(s, 'Z')) return true;
  if (!take_char(s, '+') && !take_char(s, '-')) return false;
  if (!take_number(s, 2, &hour)) return false;
  if (take_char(s, ':') && !take_number(s, 2, &minute)) return false;
  *offset = sign * (hour * 3600 + minute * 60);
  return true;
}

static bool take_date(tn_str s, int64_t *ns)
{
  int64_t year, month, day, hour, minute, second, fraction, zone;
  bool ok = take_number(&s, 4, &year) && take_char(&s, '-') && take_number(&s, 2, &month) && take_char(&s, '-') &&
            take_number(&s, 2, &day) && (take_char(&s, ' ') || take_char(&s, 'T')) && take_number(&s, 2, &hour) &&
            take_char(&s, ':') && take_number(&s, 2, &minute) && take_char(&s, ':') && take_number(&s, 2, &second) &&
            take_fraction(&s, &fraction) && take_zone(&s, &zone) && s.n == 0;
  ok = ok && year >= 1970 && year <= 2200 && month >= 1 && month <= 12 && day >= 1 && day <= 31 && hour < 24 &&
       minute < 60 && second <= 60;
  if (!ok) return false;
  *ns = (days_of(year, month, day) * 86400 + hour * 3600 + minute * 60 + second - zone) * 1000000000 + fraction;
  return true;
}

static bool take_seconds(tn_str s, int64_t *ns)
{
  int64_t whole, fraction;
  if (!take_number(&s, 10, &whole) || !take_fraction(&s, &fraction) || s.n > 0 || whole > 8000000000) return false;
  *ns = whole * 1000000000 + fraction;
  return true;
}

/* The text up to the next comma or the end, and what follows. */
static tn_str take_cell(tn_str *row)
{
  const char *comma = memchr(row->p, ',', row->n);
  tn_str cell = {row->p, comma ? (size_t)(comma - row->p) : row->n};
  *row = comma ? (tn_str){comma + 1, row->n - cell.n - 1} : (tn_str){row->p + row->n, 0};
  return cell;
}

static tn_status take_tokens(tn_str *row, const char *column, const char *where, int64_t *out, tn_err *err)
{
  tn_str cell = take_cell(row), s = cell;
  if (take_number(&s, 9, out) && s.n == 0 && *out <= TN_TRACE_MAX_TOKENS) return TN_OK;
  return tn_fail(err, TN_E_ARG, "%s: %s is '%.*s': want a whole number from 0 to %lld", where, column,
                 (int)(cell.n < 40 ? cell.n : 40), cell.p, (long long)TN_TRACE_MAX_TOKENS);
}

tn_status tn_trace_csv_row(tn_trace *t, const char *p, size_t n, const char *where, tn_err *err)
{
  tn_str row = {p, n}, time = take_cell(&row);
  int64_t at, n_prompt, n_new;
  int columns = 1;
  for (size_t i = 0; i < n; i++) columns += p[i] == ',';
  if (columns != 3) return tn_fail(err, TN_E_ARG, "%s: the row has %d columns, the header 3", where, columns);
  if (!take_date(time, &at) && !take_seconds(time, &at))
    return tn_fail(err, TN_E_ARG, "%s: TIMESTAMP is '%.*s': want a time such as 2023-11-16 18:15:46.68, or seconds",
                   where, (int)(time.n < 40 ? time.n : 40), time.p);
  tn_status st = take_tokens(&row, "ContextTokens", where, &n_prompt, err);
  if (st == TN_OK) st = take_tokens(&row, "GeneratedTokens", where, &n_new, err);
  if (st != TN_OK) return st;
  tn_trace_request *r = tn_trace_add(t);
  if (!r) return tn_fail(err, TN_E_NOMEM, "%s: no memory for %zu requests", where, t->n + 1);
  *r = (tn_trace_request){.at_ns = at, .n_prompt = n_prompt, .n_new = n_new};
  return TN_OK;
}
