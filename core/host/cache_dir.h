/* cache_dir: the user's folder of files that only save work: where it is, and how it keeps to a size.
 *
 * Files are named weights-<32 hex digits>.tnw, those being written have six characters more. Whatever else lies there is
 * left alone. Any process may delete a file at any time: who has it mapped keeps it. */
#ifndef TN_CORE_HOST_CACHE_DIR_H
#define TN_CORE_HOST_CACHE_DIR_H

#include "../base.h"

/* $XDG_CACHE_HOME/tenon, else $HOME/.cache/tenon; a variable that is no absolute path counts as not set. NULL: neither is,
 * or no memory. Free with free(). */
char *tn_cache_dir(void);

/* Makes the folder and those above it, for the user alone. TN_E_IO names the one that cannot be made; TN_E_NOMEM. */
tn_status tn_cache_dir_make(const char *dir, tn_err *err);

/* The name of a file in it. Free with free(); NULL: no memory. */
char *tn_cache_path(const char *dir, const uint8_t key[32]);

/* Deletes what a process that died left half written, and while all files take more than limit_bytes (0: no limit) the one
 * not used for the longest time, but never `keep`, a path. Returns the bytes deleted. Failures are passed over. */
uint64_t tn_cache_trim(const char *dir, uint64_t limit_bytes, const char *keep);

#endif
