/* fields: the structs of include/plugin_api.h and their fields, read from the header's text, so that no list of them is
 * kept by hand. */
#ifndef TESTS_ABI_FIELDS_H
#define TESTS_ABI_FIELDS_H

#include <stdio.h>

/* Writes to out, as the body of a C function, one line for each struct and field that prints
 *   <struct> <size> <alignment>
 *   <struct>.<field> <offset> <size>
 * in the header's order. Returns the number of structs; -1: the header cannot be read, or a declaration is not
 * understood, which `why` (256 bytes) names. */
int abi_fields(const char *header, FILE *out, char why[256]);

#endif
