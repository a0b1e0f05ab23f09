/* param: one option as its table row (tn_param) describes it: from text, back to text, and what it may be.
 *
 * Text forms, the same in every locale:
 *   BOOL      true false, yes no, on off, 1 0
 *   I64       decimal digits, with a sign where wanted
 *   F64       decimal, with an exponent where wanted; no infinity, no NaN
 *   BYTES     digits, then K, M, G or T for powers of 1024 (KiB, KB and the like mean the same)
 *   ENUM      one of the choices
 *   STR PATH  as it stands; a relative PATH starts from the folder of the file that names it
 *   F64_LIST  numbers with commas between
 *
 * Thread rule: any thread; nothing is kept. */
#ifndef TN_CORE_CONFIG_PARAM_H
#define TN_CORE_CONFIG_PARAM_H

#include "base.h"

/* Longest F64_LIST. */
#define TN_PARAM_MAX_LIST 4096u

/* Reads text into *out, whose string or list is the caller's (tn_value_free). base: folder that a relative PATH starts
 * from, or NULL. Errors: TN_E_ARG, a sentence "key = text: want ..." with the nearest choice; TN_E_NOMEM. On failure
 * *out needs no free. */
tn_status tn_param_parse(const tn_param *p, const char *text, const char *base, tn_value *out, tn_err *err);

/* The row's default. REQUIRED rows have none: TN_E_ARG. */
tn_status tn_param_default(const tn_param *p, tn_value *out, tn_err *err);

/* Frees what a value owns and leaves an empty one. */
void tn_value_free(tn_value *v);

/* A value as text that parses to the same value: shortest digits, BYTES with the largest whole suffix. Free with
 * free(); NULL: no memory. */
char *tn_param_render(const tn_param *p, const tn_value *v);

/* What is allowed, for messages and help: "a whole number of tokens from 1 to 64", "one of a, b, c". Free with free();
 * NULL: no memory. */
char *tn_param_range(const tn_param *p);

/* ---------------------------------------------------------------- numbers, for param.c */

/* The whole of text[0, n) as a number; false when it is none, or does not fit. Independent of the locale. */
bool tn_text_i64(const char *text, size_t n, int64_t *out);
bool tn_text_bytes(const char *text, size_t n, int64_t *out);
bool tn_text_f64(const char *text, size_t n, double *out);

/* Shortest decimal that reads back as x, at most 31 characters. */
void tn_f64_text(double x, char out[32]);

#endif
