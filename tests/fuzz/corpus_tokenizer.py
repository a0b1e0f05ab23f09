#!/usr/bin/env python3
"""Writes the seeds of fuzz_tokenizer into tests/fuzz/corpus/tokenizer: texts, and small vocabularies of every kind.

usage: tests/fuzz/corpus_tokenizer.py [folder]
"""
import struct
import sys
from pathlib import Path

TEXTS = {
    "plain": b"hello world, he said: 12 hello",
    "spaces": b"  a   b \t\n\n  c ",
    "special": b"<s>hello<|x|>[u][u] </s> <unk>",
    "bytes": b"a\xff\xc3(\xe4\xbd\xf0\x9f\x99\x82\x80\x00z",
    "unicode": "é e\u0301 你好 👩\u200d👧 مرحبا \u2581x".encode(),
    "runs": b"a" * 60 + b" " * 20 + b"!" * 20,
}


def text(s):
    s = s if isinstance(s, bytes) else s.encode()
    return struct.pack("<Q", len(s)) + s


def value(v):
    if isinstance(v, bool):
        return struct.pack("<IB", 7, v)
    if isinstance(v, int):
        return struct.pack("<II", 4, v)
    if isinstance(v, str):
        return struct.pack("<I", 8) + text(v)
    if isinstance(v, bytes):
        return struct.pack("<IIQ", 9, 0, len(v)) + v
    kind = {str: 8, int: 5, float: 6}[type(v[0])]
    head = struct.pack("<IIQ", 9, kind, len(v))
    if kind == 8:
        return head + b"".join(text(s) for s in v)
    return head + struct.pack(f"<{len(v)}{'i' if kind == 5 else 'f'}", *v)


def gguf(entries):
    body = b"".join(text(f"tokenizer.ggml.{k}" if "." not in k else k) + value(v) for k, v in entries.items())
    return b"GGUF" + struct.pack("<IQQ", 3, 0, len(entries)) + body


SPECIAL = ["<unk>", "<s>", "</s>", "[u]"]
TYPES = [2, 3, 3, 4]
LETTERS = list("Helowrd'123s")
BPE = SPECIAL + LETTERS + ["Ġ", "Ċ", "el", "ell", "ello", "Hello", "Ġw"]
SPM = SPECIAL + LETTERS + ["▁", "el", "lo", "▁w", "▁▁", "<0x41>", "o▁"]
# One unit for "A" that leads to the replacement "a".
CHARSMAP = struct.pack("<I4I", 16, (ord("A") ^ 1) << 10, ord("A") | 1 << 8 | 2 << 10, 0, 0x80000000) + b"a\0"
SCORES = [-float(i) / 4 for i in range(len(SPM))]
FILES = {
    "bpe": gguf({"model": "gpt2", "pre": "qwen2", "tokens": BPE, "token_type": TYPES + [1] * (len(BPE) - 4),
                 "merges": ["e l", "el l", "ell o", "H ello", "Ġ w"], "bos_token_id": 1, "eos_token_id": 2,
                 "unknown_token_id": 0, "add_bos_token": True, "general.name": "phi-3"}),
    "bpe_default": gguf({"model": "gpt2", "pre": "default", "tokens": BPE, "merges": ["e l"], "unknown_token_id": 0}),
    "spm": gguf({"model": "llama", "tokens": SPM, "token_type": TYPES + [1] * (len(SPM) - 6) + [6, 1], "scores": SCORES,
                 "add_space_prefix": True, "add_eos_token": True}),
    "unigram": gguf({"model": "t5", "tokens": SPM, "token_type": TYPES + [1] * (len(SPM) - 5) + [5], "scores": SCORES,
                     "remove_extra_whitespaces": True, "precompiled_charsmap": CHARSMAP, "unknown_token_id": 0}),
}

if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent / "corpus" / "tokenizer")
    folder.mkdir(parents=True, exist_ok=True)
    for name, seed in TEXTS.items():
        for mode in range(6):
            (folder / f"{name}_{mode}").write_bytes(bytes([mode]) + seed)
    for name, seed in FILES.items():
        (folder / f"file_{name}").write_bytes(b"\x06" + seed)
