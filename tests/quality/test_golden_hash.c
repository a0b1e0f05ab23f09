/* Logits of the cpu backend as a SHA-256, committed: the same bits on every machine and instruction set, one set after
 * the other forced. A set that this processor does not run is named in the log. `TN_GOLDEN_HASH=print` prints the
 * digests in place of comparing them.
 * label: full */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/isa.h"
#include "sha256.h"
#include "support/engine_rig.h"

enum { N_TOKENS = 40 };

/* Digest of all logits of a seeded prompt, 8-bit activations. */
static void digest_of(const char *path, const char *const *sets, char out[65])
{
  rig *r = rig_open(path, sets);
  int32_t prompt[N_TOKENS];
  uint8_t digest[32];
  tn_sha256 s;
  rig_tokens(7, r->n_vocab, prompt, N_TOKENS);
  const uint32_t at = rig_score(r, prompt, N_TOKENS);
  rig_run(r, 0);
  cr_assert_eq(r->r[at].n_rows, N_TOKENS, "%s", r->r[at].msg);
  tn_sha256_init(&s);
  tn_sha256_update(&s, r->r[at].rows, (size_t)N_TOKENS * r->n_vocab * sizeof(float));
  tn_sha256_final(&s, digest);
  tn_sha256_hex(digest, out);
  rig_close(r);
}

/* kv: a quantizer of the cache, or "". */
static void check(const char *path, const char *kv, const char *want)
{
  for (int isa = 0; isa < TNK_ISA_COUNT; isa++) {
    char choose[64], cache[64], got[65];
    snprintf(choose, sizeof choose, "backend.cpu.isa=%s", tnk_isa_name(isa));
    snprintf(cache, sizeof cache, "compose.kv=%s", kv);
    const char *sets[] = {choose, kv[0] ? cache : NULL, NULL};
    if (!tnk_isa_runs(isa)) {
      cr_log_info("%s is not tested: this processor does not have it", tnk_isa_name(isa));
      continue;
    }
    digest_of(path, sets, got);
    if (getenv("TN_GOLDEN_HASH"))
      cr_log_warn("%s %s: %s", tnk_isa_name(isa), path, got);
    else
      cr_expect_str_eq(got, want, "%s on %s: %s", path, tnk_isa_name(isa), got);
  }
}

static const char *real(const char *file)
{
  if (!rig_real(file)) rig_skip(file);
  return rig_real(file);
}

Test(golden_hash, smollm2)
{
  check(real("smollm2-135m-instruct-q4_1.gguf"), "",
        "3601a89b5185084219585eb891a87a4e1e4d44fe13e6684ed53fe4d4fb35de1d");
}
Test(golden_hash, smollm2_kv_int8)
{
  check(real("smollm2-135m-instruct-q4_1.gguf"), "int8",
        "29323087bbb1de5e525278fa569d61bd77358c6e044b5b8c3f5d8d531201e1fb");
}
Test(golden_hash, gemma3)
{
  check(real("gemma-3-270m-q4_k_m.gguf"), "", "81cd33339065482feea56a355a9cd99c2d9b79bad04bb4314c911d537e78f4b8");
}
Test(golden_hash, tiny_llama)
{
  check(rig_tiny("llama"), "", "add60897209e70cbe83a452b2aa5f6cb2c148de314ba9e2828d0cc9087a7ba97");
}
Test(golden_hash, tiny_gemma3)
{
  check(rig_tiny("gemma3"), "", "dab2fa71174c8063e2e0f2db0905e0c4eab2c89ebe0e5b25d8e4afbf8c84ee5d");
}
