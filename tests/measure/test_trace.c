/* The trace reader: each format, times, order, and what it says of rows that are none. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <string.h>

#include "measure/trace.h"

#define HEAD "TIMESTAMP,ContextTokens,GeneratedTokens\n"

static tn_trace parse(const char *text, size_t most)
{
  tn_trace t;
  tn_err err = tn_err_init();
  cr_assert(tn_trace_parse("t.csv", text, strlen(text), most, &t, &err) == TN_OK, "%s", err.msg);
  return t;
}

static void refused(const char *text, const char *why)
{
  tn_trace t;
  tn_err err = tn_err_init();
  cr_assert(tn_trace_parse("t.csv", text, strlen(text), 0, &t, &err) == TN_E_ARG, "taken: %s", text);
  cr_assert(strstr(err.msg, why) != NULL, "'%s', want '%s'", err.msg, why);
  cr_assert(t.n == 0 && !t.r, "something was left behind");
}

Test(measure_trace, csv)
{
  tn_trace t = parse("\xEF\xBB\xBFtimestamp,contexttokens,generatedtokens\r\n"
                     "2023-11-16 18:15:46.6805900,374,44\r\n\r\n"
                     "2023-11-16T18:15:50.9951690Z,396,109\r\n"
                     "2023-11-16 19:15:47+01:00,879,0",
                     0);
  cr_assert(t.timed && t.n == 3 && t.longest_prompt == 879 && t.longest_new == 109);
  cr_assert(eq(i64, t.r[0].at_ns, 0));
  cr_assert(eq(i64, t.r[1].at_ns, 319410000)); /* the zone puts the third second */
  cr_assert(eq(i64, t.r[2].at_ns, 4314579000));
  cr_assert(t.r[0].n_prompt == 374 && t.r[0].n_new == 44 && t.r[1].n_prompt == 879 && t.r[2].n_new == 109);
  tn_trace_free(&t);
}

Test(measure_trace, seconds_and_most)
{
  tn_trace t = parse(HEAD "10,1,2\n10.5,3,4\n11.25,5,6\n", 2);
  cr_assert(t.n == 2 && t.r[1].at_ns == 500000000 && t.longest_prompt == 3);
  tn_trace_free(&t);
}

Test(measure_trace, calendar)
{
  tn_trace t = parse(HEAD "1970-01-01 00:00:00,1,1\n2000-02-29 00:00:00,1,1\n2000-03-01 00:00:00,1,1\n"
                          "2100-03-01 00:00:00,1,1\n",
                     0);
  cr_assert(eq(i64, t.r[1].at_ns / 1000000000, 951782400));
  cr_assert(eq(i64, t.r[2].at_ns / 1000000000, 951868800));
  cr_assert(eq(i64, t.r[3].at_ns / 1000000000, 4107542400));
  tn_trace_free(&t);
}

Test(measure_trace, prompts)
{
  tn_trace t = parse("{\"question_id\": 1, \"turns\": [\"one\", \"two\"]}\n\n{\"prompt\": \"th\\u00e9\"}\n", 0);
  cr_assert(t.timed == false && t.n == 2 && t.r[0].n_prompt == 0 && t.r[0].n_new == 0);
  cr_assert(eq(str, t.r[0].text, "one"));
  cr_assert(eq(str, t.r[1].text, "th\xC3\xA9"));
  tn_err err = tn_err_init();
  cr_assert(tn_trace_arrive(&t, 2, 1, &err) == TN_OK && t.timed && t.r[1].at_ns > 0);
  cr_assert(tn_trace_arrive(&t, 0, 1, &err) == TN_E_ARG);
  tn_trace_free(&t);
}

Test(measure_trace, bad_rows_are_named)
{
  refused("", "t.csv: is empty");
  refused("\n \n", "t.csv: is empty");
  refused(HEAD, "t.csv: holds no request");
  refused("a,b\n1,2\n", "t.csv: no trace: want a header TIMESTAMP,ContextTokens,GeneratedTokens");
  refused(HEAD "1,2,3\n4,5\n", "t.csv:3: the row has 2 columns, the header 3");
  refused(HEAD "1,2,3,4\n", "t.csv:2: the row has 4 columns");
  refused(HEAD "\n1,x,3\n", "t.csv:3: ContextTokens is 'x': want a whole number");
  refused(HEAD "1,2,-3\n", "t.csv:2: GeneratedTokens is '-3'");
  refused(HEAD "1,2,99999999\n", "t.csv:2: GeneratedTokens is '99999999'");
  refused(HEAD "1,2, 3\n", "GeneratedTokens is ' 3'");
  refused(HEAD "yesterday,2,3\n", "t.csv:2: TIMESTAMP is 'yesterday': want a time such as");
  refused(HEAD "2023-13-16 18:15:46,2,3\n", "TIMESTAMP is '2023-13-16 18:15:46'");
  refused(HEAD "2023-11-16 18:15:46.,2,3\n", "TIMESTAMP");
  refused(HEAD "2023-11-16 18:15:46+1x,2,3\n", "TIMESTAMP");
  refused(HEAD "99999999999,2,3\n", "TIMESTAMP");
  refused("{\"prompt\": \"a\"}\n{\"prompt\": 3}\n", "t.csv:2: want a text under \"prompt\"");
  refused("{\"prompt\": \"a\"}\n{\"prompt\": \"\"}\n", "t.csv:2: want a text");
  refused("{\"turns\": []}\n", "t.csv:1: want a text");
  refused("{\"prompt\": \"a\"\n", "t.csv:1: no JSON");
}

/* Exponential gaps: their mean and standard deviation are both 1 / rate. */
Test(measure_trace, poisson)
{
  enum { N = 20000 };
  tn_trace a, b, c;
  tn_err err = tn_err_init();
  cr_assert(tn_trace_poisson(50, N, 100, 20, 7, &a, &err) == TN_OK, "%s", err.msg);
  cr_assert(tn_trace_poisson(50, N, 100, 20, 7, &b, &err) == TN_OK);
  cr_assert(tn_trace_poisson(50, N, 100, 20, 8, &c, &err) == TN_OK);
  double sum = 0, squares = 0;
  size_t same = 0, others = 0;
  for (size_t i = 0; i < N; i++) {
    same += a.r[i].at_ns == b.r[i].at_ns;
    others += a.r[i].at_ns != c.r[i].at_ns;
    cr_assert(a.r[i].n_prompt == 100 && a.r[i].n_new == 20);
    if (i == 0) continue;
    double gap = (double)(a.r[i].at_ns - a.r[i - 1].at_ns) * 1e-9;
    cr_assert(gap >= 0);
    sum += gap, squares += gap * gap;
  }
  double mean = sum / (N - 1), sd = sqrt(squares / (N - 1) - mean * mean);
  cr_assert(a.r[0].at_ns == 0 && same == N && others == N - 1);
  cr_assert(fabs(mean - 0.02) < 0.0006 && fabs(sd - 0.02) < 0.001, "mean %g, sd %g", mean, sd);
  cr_assert(tn_trace_poisson(-1, 3, 1, 1, 0, &(tn_trace){0}, &err) == TN_E_ARG);
  cr_assert(tn_trace_poisson(1, 3, 0, 1, 0, &(tn_trace){0}, &err) == TN_E_ARG);
  tn_trace_free(&a);
  tn_trace_free(&b);
  tn_trace_free(&c);
}

Test(measure_trace, file)
{
  tn_trace t;
  tn_err err = tn_err_init();
  cr_assert(tn_trace_read(TN_SOURCE_DIR "/tests/data/azure-conv-600.csv", 0, &t, &err) == TN_OK, "%s", err.msg);
  cr_assert(t.n == 600 && t.r[0].n_prompt == 374 && t.r[0].n_new == 44 && t.timed);
  tn_trace_free(&t);
  cr_assert(tn_trace_read(TN_SOURCE_DIR "/tests/data/none.csv", 0, &t, &err) == TN_E_IO && strstr(err.msg, "none.csv"));
}
