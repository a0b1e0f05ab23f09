/* trie: finds every key that begins a text, one byte a step. Built once over borrowed strings, then read-only. */
#ifndef TN_CORE_TOKENIZER_TRIE_H
#define TN_CORE_TOKENIZER_TRIE_H

#include "../base.h"

typedef struct tn_trie {
  struct tn_trie_node {
    uint32_t child; /* first of its children, which stand together by ascending byte */
    uint16_t n;     /* children, 0..256 */
    uint8_t byte;   /* the edge that leads here */
    int32_t id;     /* key that ends here, or -1 */
  } * node;         /* [n_nodes], owned; node 0 is the root */
  size_t n_nodes;
  uint32_t root[256]; /* child of the root by byte, 0 for none */
} tn_trie;

/* Builds over text[ids[i]], i < n; empty texts are left out, and of equal texts the lower id stays. ids is reordered.
 * TN_E_NOMEM, *t is then empty; free with tn_trie_clear. */
tn_status tn_trie_build(tn_trie *t, const tn_str *text, int32_t *ids, size_t n);

/* Accepts an empty trie. */
void tn_trie_clear(tn_trie *t);

/* The node after one more byte, 0 when no key goes on like that. node 0 begins. */
uint32_t tn_trie_step(const tn_trie *t, uint32_t node, uint8_t byte);

#endif
