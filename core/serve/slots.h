/* slots: conversations that are kept after their answer, to be gone on with, saved to files and brought back.
 *
 * A slot holds what the engine saves of a sequence, the tokens of that text, and the salt of the request that left it.
 * It serves only requests of the same salt whose prompt begins with its text. Thread rule: any thread, calls lock. */
#ifndef TN_CORE_SERVE_SLOTS_H
#define TN_CORE_SERVE_SLOTS_H

#include "serve/fault.h"

typedef struct tn_slots tn_slots;

/* n slots, files in dir (NULL: none are written or read). NULL: no memory. */
tn_slots *tn_slots_new(uint32_t n, const char *dir);
void tn_slots_free(tn_slots *s);

/* Keeps bytes (taken over, n of them) of a sequence that ran n_tokens tokens. A slot that does not exist: they are freed. */
void tn_slots_put(tn_slots *s, int64_t slot, const char *salt, const int32_t *tokens, size_t n_tokens, uint8_t *bytes,
                  size_t n);

/* Does the slot know the beginning of this prompt? Then how many tokens of it, and a copy of its bytes (free()). */
size_t tn_slots_match(tn_slots *s, int64_t slot, const char *salt, const int32_t *prompt, size_t n_prompt,
                      uint8_t **bytes, size_t *n);

/* action: "save" or "restore" (name: a file of dir) or "erase". *n_tokens: of the slot. false: *f says why. */
bool tn_slots_act(tn_slots *s, int64_t slot, const char *action, const char *name, size_t *n_tokens, size_t *n_bytes,
                  tn_fault *f);

/* Tokens in each slot, as JSON. */
json_t *tn_slots_json(tn_slots *s);

#endif
