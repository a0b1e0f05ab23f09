/* words: the spelling of names, ids, versions and tokens in descriptors and notes. Pure functions, [any] thread. */
#ifndef TN_CORE_LOADER_WORDS_H
#define TN_CORE_LOADER_WORDS_H

#include <stdbool.h>

#define TN_NAME_MAX 31 /* bytes of a plugin's, parameter's or counter's name */

/* "streaming_llm": a lower-case letter, then lower-case letters, digits and _, at most TN_NAME_MAX. */
bool tn_is_name(const char *s);

/* "org.tenon.h2o": two or more words of lower-case letters, digits, _ and - joined by dots, at most 63 bytes. */
bool tn_is_id(const char *s);

/* "1.0.0": three numbers without leading zeros; "-rc.1" and "+build" may follow, as in semver 2.0. */
bool tn_is_version(const char *s);

/* "attn.scores/1": words joined by dots, then / and a version from 1. At most 63 bytes. */
bool tn_is_token(const char *s);

/* "1.2", "1" or "1.2.3" as a least version. */
bool tn_is_min_version(const char *s);

/* Orders version (tn_is_version) against min (tn_is_min_version; absent parts are 0): < 0 when it is older. A
 * pre-release is older than its release; build metadata does not count. */
int tn_version_compare(const char *version, const char *min);

#endif
