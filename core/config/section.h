/* section: what a section's name means, and which keys [compose] takes.
 *
 *   [compose]                  which plugin fills which key
 *   [engine] [model]           the host's own options (host_params.h)
 *   [slot.name]                options of one plugin
 *   [slot.name@key]            the same, for the plugin under one key of [compose] only: [quantizer.int8@kv]
 *
 * Pure functions over constant tables: any thread. */
#ifndef TN_CORE_CONFIG_SECTION_H
#define TN_CORE_CONFIG_SECTION_H

#include "base.h"

typedef struct tn_compose_key {
  const char *key; /* "kv" */
  uint32_t slot;   /* TN_SLOT_QUANTIZER */
  uint32_t required;
} tn_compose_key;

/* Keys of [compose] in the order of reports, each for one slot; NULL past the end. */
const tn_compose_key *tn_compose_key_at(size_t i);

/* The row of a key, or NULL. */
const tn_compose_key *tn_compose_key_find(const char *key);

/* The key that gives each range of layers its own attention plugin: "0-3:a, 4-29:b". */
#define TN_KEY_ATTENTION_LAYERS "attention.layers"

enum { TN_SECTION_COMPOSE = 1, TN_SECTION_HOST = 2, TN_SECTION_PLUGIN = 3 };

/* Checks a section's name. On success its kind, and for a plugin's section the slot. Errors: TN_E_ARG with a sentence
 * that names the nearest spelling and lacks file and line. */
tn_status tn_section_read(const char *section, uint32_t *kind, uint32_t *slot, tn_err *err);

/* Splits a plugin's section: "quantizer.int8@kv" gives name "int8" and key "kv" (empty without @). */
void tn_section_plugin(const char *section, tn_str *name, tn_str *key);

/* Checks a key of [compose]; else TN_E_ARG with the nearest one. */
tn_status tn_compose_key_check(const char *key, tn_err *err);

/* Is s the name of a plugin as an INI spells it: a lower-case letter, then letters, digits and _ ? */
bool tn_plugin_name_ok(tn_str s);

#endif
