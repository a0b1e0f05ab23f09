/* mock_catalog: a catalogue of plugins that exist as descriptors only. Nothing of them can be created.
 *
 *   backend     fast    most abilities, neither attn.scores/1 nor attn.state/1
 *               whole   every ability
 *   memory      pages   option page_tokens 16 32 64; drops tokens       slab   cannot drop tokens
 *   attention   plain   window   (option width)   names   names evicted keys   recur   recurrent, untrained
 *   eviction    last    options first, span; needs kv.token_drop/1      heavy  needs attn.scores/1, kv.history/1
 *   quantizer   q8      options group, mode, table; weights and kv      wonly  weights only      odd   untrained weights
 *   draft       look    lossless    branch   lossless, branches    guess   not lossless    alien   needs org.token/1
 *   position    turn    stretch   option factor; rope.stretch/1    scheduler   queue    parallel   split   option world; validate: divides the heads
 *   Every one is of version 1.0.0 and id org.mock.<name>; pages has a deprecated option old. */
#ifndef TN_TESTS_MOCK_CATALOG_H
#define TN_TESTS_MOCK_CATALOG_H

#include "compose/catalog.h"

typedef struct mock_catalog {
  tn_plugin_want last; /* the last plugin asked for with a path, sha256 or min; strings below */
  char path[256], sha256[80], min[16];
  const char *hide;    /* a plugin's name that is not there; NULL: all are */
  const char *version; /* of every plugin; NULL: 1.0.0 */
} mock_catalog;

tn_catalog mock_catalog_of(mock_catalog *m);

#endif
