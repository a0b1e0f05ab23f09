/* ini: the text of one INI file as a stream of entries, each with its line.
 *
 *   # or ; at the start of a line begin a comment, and so does ; after a blank
 *   [section]                     letters, digits, _ . @ -
 *   key = value                   the value ends at the comment or the line; no quotes, no escapes
 *     more of the value           an indented line without '=' goes on with the value above, after one blank
 *
 * The library inih does the splitting. It counts no lines for its caller and cuts what is too long, so each line is
 * checked here before inih sees it. Refused: bytes that are not UTF-8, NUL and other control characters (tab apart), a
 * line longer than TN_INI_MAX_LINE without its comment and blanks, a section or key name over TN_INI_MAX_NAME, a value
 * over TN_INI_MAX_VALUE with its further lines, text behind a section's bracket, a line that is none of the above. */
#ifndef TN_CORE_CONFIG_INI_H
#define TN_CORE_CONFIG_INI_H

#include "base.h"

enum {
  TN_INI_MAX_LINE = 198,   /* bytes; inih's buffer has 200 */
  TN_INI_MAX_NAME = 49,    /* bytes; inih cuts names there */
  TN_INI_MAX_VALUE = 4096, /* bytes */
};

typedef struct tn_ini_item { /* borrowed until the callback returns */
  const char *section;       /* "" before the first section */
  const char *key, *value;   /* value "": nothing stands behind the '=' */
  uint32_t line;             /* of the key, from 1 */
} tn_ini_item;

/* Returns TN_OK to go on; anything else ends the parse with that status. The callback fills *err itself. */
typedef tn_status (*tn_ini_fn)(void *ctx, const tn_ini_item *item, tn_err *err);

/* Calls fn for each entry of text[0, n) in order. name is the file's name for messages, which read
 * "name:line: what is wrong". Errors: TN_E_ARG malformed, or what fn returned. No allocation; any thread. */
tn_status tn_ini_parse(const char *name, const char *text, size_t n, tn_ini_fn fn, void *ctx, tn_err *err);

/* ---------------------------------------------------------------- one line, for ini.c */

enum { TN_LINE_BLANK = 0, TN_LINE_SECTION = 1, TN_LINE_KEY = 2, TN_LINE_MORE = 3 };

typedef struct tn_ini_line { /* parts lie in the line */
  uint32_t kind;             /* TN_LINE_* */
  tn_str name;               /* SECTION, KEY */
  tn_str value;              /* KEY, MORE */
} tn_ini_line;

/* What line[0, n), without its line end, is. TN_E_ARG with a sentence that lacks file and line. */
tn_status tn_ini_line_read(const char *line, size_t n, tn_ini_line *out, tn_err *err);

#endif
