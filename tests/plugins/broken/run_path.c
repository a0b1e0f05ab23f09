/* run_path: searches its libraries in a relative folder.
 * build: -Wl,-rpath,lib */
#define NAME "run_path"
#include "base.h"
