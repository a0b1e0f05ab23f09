#!/usr/bin/env python3
"""Seeds of fuzz_base in tests/fuzz/corpus/base: small files of both kinds, and damaged ones.

usage: python3 tests/fuzz/corpus_base.py
"""
import math
import struct
from pathlib import Path

HERE = Path(__file__).parent / "corpus" / "base"
TOKENS = struct.pack("<8i", 1, 2, 3, 4, 0, 4, 3, 2)


def llama(n_ctx=4, n_vocab=5, n_chunks=2, tokens=TOKENS, scale=16 / 65535, least=-17.0):
    """llama-perplexity's file: chunks of n_ctx with their second half scored."""
    row = struct.pack("<2f", scale, least) + struct.pack("<6H", 57343, 61439, 65535, 0, 61439, 0)
    return b"_logits_" + struct.pack("<3I", n_ctx, n_vocab, n_chunks) + tokens + 2 * row


def compact(k=2, n_prompt=2, ids=(2, 1), lp=(-0.5, -1.5), head=(-1.5, 0.17), n_vocab=5):
    """The compact file of the same text."""
    row = struct.pack("<2f", *head) + struct.pack("<2I", *ids) + struct.pack("<2f", *lp)
    return b"TNKLDB1\n" + struct.pack("<6I", k, 4, n_prompt, n_vocab, 2, 0) + TOKENS + 2 * row


SEEDS = {
    "llama": llama(),
    "llama-flat": llama(scale=0.0, least=-math.log(5)),
    "llama-nan": llama(scale=math.nan),
    "llama-inf": llama(least=math.inf),
    "llama-token-outside": llama(tokens=struct.pack("<8i", 1, 2, 3, 4, 0, 4, 3, 5)),
    "llama-token-negative": llama(tokens=struct.pack("<8i", -1, 2, 3, 4, 0, 4, 3, 2)),
    "llama-chunks-overflow": llama(n_ctx=1 << 24, n_vocab=1 << 24, n_chunks=1 << 24),
    "llama-cut": llama()[:-3],
    "llama-header-alone": llama()[:20],
    "compact": compact(),
    "compact-id-outside": compact(ids=(2, 5)),
    "compact-id-twice": compact(ids=(2, 2)),
    "compact-positive-lp": compact(lp=(3e38, -1.5)),
    "compact-no-rest": compact(head=(-1.5, -0.25)),
    "compact-rest-nan": compact(head=(-1.5, math.nan)),
    "compact-many-vocab": compact(n_vocab=1 << 24),
    "compact-k-zero": compact(k=0),
    "compact-k-over": compact(k=6),
    "compact-no-row": compact(n_prompt=3),
    "empty": b"",
    "other": b"GGUF" + bytes(28),
}

HERE.mkdir(parents=True, exist_ok=True)
for name, data in SEEDS.items():
    (HERE / name).write_bytes(data)
