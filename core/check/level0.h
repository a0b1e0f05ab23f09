/* level0: what the two files of level 0 share. */
#ifndef TN_CORE_CHECK_LEVEL0_H
#define TN_CORE_CHECK_LEVEL0_H

#include "check/check_int.h"
#include "check/image.h"

/* Opens the file's image; false, and SKIP said, when that fails. The image is to be closed in both cases. */
bool tn_check_image(tn_check *c, tn_image *img);

/* Was the file built with a sanitizer? */
bool tn_check_sanitized(const tn_image *img);

void tn_check_exports(tn_check *c);
void tn_check_undefined(tn_check *c);
void tn_check_imports(tn_check *c);
void tn_check_libraries(tn_check *c);
void tn_check_unique(tn_check *c);
void tn_check_glibc(tn_check *c);

#endif
